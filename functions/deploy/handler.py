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
    """What CloudFormation was told. Its answer always goes out: without one a stack hangs until its time is over.

    By hand: `{"reset_password": "ada@example.com"}` gives that owner another password and puts it into the secret of the first login.
    """
    if "reset_password" in event:
        return _reset(str(event["reset_password"]))
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

    keeper = boto3.client("secretsmanager")
    first = _first_login(keeper, os.environ["FIRST_LOGIN_SECRET"], properties["Stage"])
    doors = [os.environ[name] for name in ("ORIGIN_SECRET", "ORIGIN_SECRET_BEFORE") if name in os.environ]
    origins = [keeper.get_secret_value(SecretId=door)["SecretString"] for door in doors]
    data = _asked_of_migrator(keeper, {"Founding": first})
    return {"Version": data["Version"], "OriginDigest": ",".join(hashlib.sha256(origin.encode()).hexdigest() for origin in origins)}


def _asked_of_migrator(keeper: Any, more: dict[str, Any]) -> dict[str, Any]:
    """Its `Data`, after it has migrated with the master login. RuntimeError with its reason."""
    import boto3
    from botocore.config import Config

    login = json.loads(keeper.get_secret_value(SecretId=os.environ["MASTER_SECRET"])["SecretString"])
    invoker = boto3.client("lambda", config=Config(read_timeout=READ_TIMEOUT_S, retries={"total_max_attempts": 1}))
    call = {"RequestType": "Update", "Login": {"username": login["username"], "password": login["password"]}, **more}
    done = invoker.invoke(FunctionName=os.environ["MIGRATOR"], Payload=json.dumps(call).encode())
    said: dict[str, Any] = json.loads(done["Payload"].read())
    if "FunctionError" in done:
        raise RuntimeError(f"the migrator failed: {said.get('errorType')}: {said.get('errorMessage')}")
    data: dict[str, Any] = said["Data"]
    return data


def _reset(email: str) -> dict[str, Any]:
    """Where the new password lies; it is in no answer and no log."""
    import boto3

    keeper, secret_id = boto3.client("secretsmanager"), os.environ["FIRST_LOGIN_SECRET"]
    first = json.loads(keeper.get_secret_value(SecretId=secret_id)["SecretString"])
    owner = _asked_of_migrator(keeper, {"bootstrap": {"email": email, "reset_password": True}})["Owner"]
    kept = {**first, "email": owner["email"], "password": owner["password"]}
    keeper.put_secret_value(SecretId=secret_id, SecretString=json.dumps(kept))
    return {"Email": owner["email"], "Secret": secret_id}


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
