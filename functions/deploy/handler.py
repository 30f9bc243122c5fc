"""Lambda behind a CDK custom resource: has the migrator bring the database to this version, and tells CloudFormation how it went.

It runs outside the VPC, where secrets and CloudFormation can be reached without a paid endpoint; the migrator runs inside, where
the database is, and gets the master login with the call. Delete touches nothing: deleting a stack does not say that the jobs may go.
"""

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any
from uuid import uuid4

from aws_lambda_powertools import Logger

from deploy.cloudformation import answer
from tidemill.domain import api_keys

READ_TIMEOUT_S = 880
PAGE = Path(__file__).resolve().parents[1] / "page" / "index.html"
logger = Logger(service="deploy")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """What CloudFormation was told. Its answer always goes out: without one a stack hangs for an hour."""
    resource_id = event.get("PhysicalResourceId") or f"tidemill-{event['LogicalResourceId']}"
    try:
        work = _uploaded if event.get("ResourceType") == "Custom::TidemillPage" else _brought_up_to_date
        data = {} if event["RequestType"] == "Delete" else work(event["ResourceProperties"])
    except Exception as error:
        logger.exception("deploy failed")
        return answer(event, context, "FAILED", resource_id, reason=f"{type(error).__name__}: {error}"[:1_000])
    return answer(event, context, "SUCCESS", resource_id, data=data)


def _brought_up_to_date(properties: dict[str, Any]) -> dict[str, Any]:
    import boto3
    from botocore.config import Config

    keeper = boto3.client("secretsmanager")
    login = json.loads(keeper.get_secret_value(SecretId=os.environ["MASTER_SECRET"])["SecretString"])
    first = _first_login(keeper, os.environ["FIRST_LOGIN_SECRET"], properties["Stage"])
    origin = keeper.get_secret_value(SecretId=os.environ["ORIGIN_SECRET"])["SecretString"]
    invoker = boto3.client("lambda", config=Config(read_timeout=READ_TIMEOUT_S, retries={"total_max_attempts": 1}))
    call = {"RequestType": "Update", "Login": {"username": login["username"], "password": login["password"]}, "Founding": first}
    done = invoker.invoke(FunctionName=os.environ["MIGRATOR"], Payload=json.dumps(call).encode())
    said = json.loads(done["Payload"].read())
    if "FunctionError" in done:
        raise RuntimeError(f"the migrator failed: {said.get('errorType')}: {said.get('errorMessage')}")
    return {"Version": said["Data"]["Version"], "OriginDigest": hashlib.sha256(origin.encode()).hexdigest()}


def _uploaded(properties: dict[str, Any]) -> dict[str, Any]:
    """The page of this version lies in the bucket."""
    import boto3

    html = PAGE.read_bytes()
    boto3.client("s3").put_object(
        Bucket=properties["Bucket"], Key="index.html", Body=html, ContentType="text/html; charset=utf-8", CacheControl="no-cache"
    )
    return {"Bytes": len(html)}


def _first_login(keeper: Any, secret_id: str, stage: str) -> dict[str, str]:
    """The first owner's email, password and API key; the key is made here, once, and kept beside the password."""
    first: dict[str, str] = json.loads(keeper.get_secret_value(SecretId=secret_id)["SecretString"])
    if "api_key" not in first:
        first["api_key"] = api_keys.compose(stage, uuid4(), secrets.token_urlsafe(api_keys.SECRET_BYTES)).text
        keeper.put_secret_value(SecretId=secret_id, SecretString=json.dumps(first))
    return first
