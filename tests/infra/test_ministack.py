"""The synthesised stacks, deployed through CloudFormation into an emulator: a request goes to Postgres and back, and time comes.

HTTP API -> authorizer -> Lambda -> Postgres -> back. What is left out and what stands in is listed in harness.fitted; VPC, IAM, TLS,
CloudFront and ECS are records in the emulator, so that nothing here proves them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from harness import cloud as clouds
from harness.cloud import Cloud
from harness.fitted import fitted
from infra import bundle

STACKS = ("Tidemill-dev-Stateful", "Tidemill-dev-Service")
DOOR = "x-tidemill-origin"


@dataclass(frozen=True)
class Deployed:
    """The stage `dev` in the emulator."""

    cloud: Cloud
    dsn: str
    outputs: dict[str, str]

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and answer of a request to the HTTP API, with the header that CloudFront adds unless another is given."""
        (api,) = self.cloud.client("apigatewayv2").get_apis()["Items"]
        host = f"{api['ApiId']}.execute-api.{clouds.HOST}:{self.cloud.port}"
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.cloud.call(host, method, path, body, {DOOR: self.secret("Origin"), **given})

    def secret(self, name: str) -> str:
        keeper = self.cloud.client("secretsmanager")
        (found,) = [each["Name"] for each in keeper.list_secrets()["SecretList"] if name in each["Name"]]
        return str(keeper.get_secret_value(SecretId=found)["SecretString"])


@pytest.fixture
def deployed(assemblies: Path, empty_database: str, tmp_path: Path) -> Iterator[Deployed]:
    fields = conninfo_to_dict(empty_database)
    with clouds.running(tmp_path / "cloud") as cloud:
        cloud.bootstrap()
        login = {"username": fields["user"], "password": fields.get("password") or "none"}
        master = cloud.client("secretsmanager").create_secret(Name="rds!master", SecretString=json.dumps(login))["ARN"]
        # The template's layer is for ARM; this machine's takes its place.
        cloud.publish(assemblies / "dev", STACKS[1], {"Functions/Dependencies/Code": bundle.layer(bundle.host(), bundle.test_python()[1])})
        outputs: dict[str, str] = {}
        for stack in STACKS:
            template = json.loads((assemblies / "dev" / f"{stack}.template.json").read_text())
            outputs |= cloud.deploy(stack, fitted(template, empty_database, master))
        yield Deployed(cloud, empty_database, outputs)


def test_a_stage_is_deployed_serves_ticks_and_is_deleted_without_its_jobs(deployed: Deployed) -> None:
    """One test for all of it: each deploy starts seven functions."""
    first = json.loads(deployed.secret(deployed.outputs["FirstLogin"]))
    caller = f"Bearer {first['api_key']}"
    job_id = a_job_goes_in_and_is_read_and_worked(deployed, caller)
    strangers_are_refused(deployed, caller)
    the_first_owner_logs_in(deployed, first)
    the_page_lies_in_its_bucket(deployed)
    the_tick_arrives(deployed)
    deleting_the_service_keeps_the_jobs(deployed, job_id)


def a_job_goes_in_and_is_read_and_worked(deployed: Deployed, caller: str) -> str:
    status, made = deployed.call("POST", "/v1/jobs", {"job_type": "hello", "payload": {"name": "Ada"}}, authorization=caller)
    assert status == 201, (made, deployed.cloud.log[-2_000:])
    made = made["job"]
    claim = {"worker_id": str(uuid4()), "queues": ["default"], "limit": 10}
    status, claimed = deployed.call("POST", "/v1/claims", claim, authorization=caller)
    assert (status, [each["id"] for each in claimed["jobs"]]) == (200, [made["id"]])
    ack = {"job_id": made["id"], "lease_token": claimed["jobs"][0]["lease_token"], "outcome": "complete"}
    status, acked = deployed.call("POST", "/v1/acks", {"acks": [ack]}, authorization=caller)
    assert (status, acked["results"][0]["status"]) == (200, "ok")
    status, read = deployed.call("GET", f"/v1/jobs/{made['id']}", authorization=caller)
    assert (status, read["state"], read["payload"]) == (200, "completed", {"name": "Ada"})
    with psycopg.connect(deployed.dsn) as conn:
        assert conn.execute("select job_type from tidemill.jobs where id = %s", [made["id"]]).fetchone() == ("hello",)
    return str(made["id"])


def strangers_are_refused(deployed: Deployed, caller: str) -> None:
    assert deployed.call("GET", "/v1/queues", authorization=caller, x_tidemill_origin="a guess")[0] == 403  # past CloudFront
    status, answer = deployed.call("GET", "/v1/queues", authorization="Bearer nonsense")
    assert (status, answer["code"]) == (401, "unauthenticated")  # our problem, not the gateway's


def the_first_owner_logs_in(deployed: Deployed, first: dict[str, str]) -> None:
    login = {"email": first["email"], "password": first["password"]}
    status, session = deployed.call("POST", "/v1/auth/login", login, x_forwarded_proto="https")
    assert status == 200, session
    status, me = deployed.call("GET", "/v1/me", authorization=f"Bearer {session['access_token']}")
    assert (status, me["user"]["email"]) == (200, first["email"])


def the_page_lies_in_its_bucket(deployed: Deployed) -> None:
    store = deployed.cloud.client("s3")
    (bucket,) = [each["Name"] for each in store.list_buckets()["Buckets"] if each["Name"] != clouds.BUCKET]
    assert store.get_object(Bucket=bucket, Key="index.html")["ContentType"] == "text/html; charset=utf-8"


def the_tick_arrives(deployed: Deployed) -> None:
    schedules = deployed.cloud.client("scheduler")
    made = schedules.get_schedule(Name="tidemill-dev-tick")
    assert (made["ScheduleExpression"], made["State"]) == ("rate(1 minute)", "ENABLED")
    # Its target once more, a moment from now instead of within the minute.
    soon = (datetime.now(UTC) + timedelta(seconds=1)).strftime("at(%Y-%m-%dT%H:%M:%S)")
    schedules.create_schedule(Name="soon", ScheduleExpression=soon, Target=made["Target"], FlexibleTimeWindow={"Mode": "OFF"})
    with psycopg.connect(deployed.dsn, autocommit=True) as conn:
        # Only a pass writes samples.
        deployed.cloud.wait_for(lambda: conn.execute("select 1 from tidemill.queue_samples limit 1").fetchone() is not None)


def deleting_the_service_keeps_the_jobs(deployed: Deployed, job_id: str) -> None:
    deployed.cloud.delete(STACKS[1])
    with psycopg.connect(deployed.dsn) as conn:
        assert conn.execute("select count(*) from tidemill.jobs where id = %s", [job_id]).fetchone() == (1,)
