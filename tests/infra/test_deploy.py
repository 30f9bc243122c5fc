"""The deploy function: what CloudFormation is told, whatever happens, and that data outlives deletes and roll-backs."""

import hashlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
import psycopg
import pytest
from moto import mock_aws

import deploy.handler as deploy
from migrator.handler import handler as migrate
from tidemill.config import Settings
from tidemill.domain import api_keys
from tidemill.http.origin import HEADER, came_through
from tidemill.passwords import matches


class Context:
    function_name = "deploy"
    log_stream_name = "a-stream"
    aws_request_id = "r"
    memory_limit_in_mb = 256
    invoked_function_arn = "arn"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


class CloudFormation:
    """Where answers go."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        told = self.told

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                told.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def event(self, kind: str, resource: str = "Custom::TidemillSchema", **properties: str) -> dict[str, Any]:
        return {
            "RequestType": kind, "ResourceType": resource, "LogicalResourceId": "Schema", "StackId": "s", "RequestId": "q",
            "ResponseURL": f"http://127.0.0.1:{self.server.server_port}/", "ResourceProperties": {"Stage": "dev", **properties},
        }  # fmt: skip


@pytest.fixture
def cloudformation() -> Iterator[CloudFormation]:
    made = CloudFormation()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch, empty_database: str) -> Iterator[Any]:
    """Secrets Manager as the stack leaves it, and a Lambda client that invokes the migrator here."""
    fields = psycopg.conninfo.conninfo_to_dict(empty_database)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("TIDEMILL_DATABASE_URL", f"postgresql://{fields['host']}:{fields['port']}/{fields['dbname']}")
    monkeypatch.setenv("TIDEMILL_STAGE", "dev")
    for variable, value in {
        "MASTER_SECRET": "master",
        "FIRST_LOGIN_SECRET": "first",
        "ORIGIN_SECRET": "origin",
        "MIGRATOR": "migrator",
    }.items():
        monkeypatch.setenv(variable, value)
    with mock_aws():
        keeper = boto3.client("secretsmanager")
        login = {"username": fields["user"], "password": fields.get("password", "")}
        keeper.create_secret(Name="master", SecretString=json.dumps(login))
        keeper.create_secret(Name="first", SecretString=json.dumps({"email": "ada@example.com", "password": "a password"}))
        keeper.create_secret(Name="origin", SecretString="a header")
        real = boto3.client

        def client(service: str, **more: Any) -> Any:
            return Invoker() if service == "lambda" else real(service, **more)

        monkeypatch.setattr(boto3, "client", client)
        yield keeper


class Invoker:
    def invoke(self, *, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803 - the SDK's names
        assert FunctionName == "migrator"
        try:
            return {"Payload": io.BytesIO(json.dumps(migrate(json.loads(Payload), Context())).encode())}
        except Exception as error:  # noqa: BLE001 - as Lambda does
            said = {"errorType": type(error).__name__, "errorMessage": str(error)}
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(said).encode())}


def count(database: str, table: str) -> int:
    with psycopg.connect(database) as conn:
        row = conn.execute(f"select count(*) from tidemill.{table}".encode()).fetchone()
        assert row is not None
        return int(row[0])


def test_create_migrates_and_founds_the_first_owner(secrets: Any, cloudformation: CloudFormation, empty_database: str) -> None:
    deploy.handler(cloudformation.event("Create"), Context())
    (told,) = cloudformation.told
    assert told["Status"] == "SUCCESS", told
    assert told["Data"]["OriginDigest"] == hashlib.sha256(b"a header").hexdigest()
    first = json.loads(secrets.get_secret_value(SecretId="first")["SecretString"])
    key = api_keys.parse(first["api_key"])
    assert key is not None
    assert key.stage == "dev"
    with psycopg.connect(empty_database) as conn:
        assert conn.execute("select email from tidemill.users").fetchall() == [("ada@example.com",)]
        assert conn.execute("select key_hash from tidemill.api_keys").fetchall() == [(key.digest,)]


def test_a_new_front_door_is_known_beside_the_one_before(
    secrets: Any, cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets.create_secret(Name="next", SecretString="another header")
    monkeypatch.setenv("ORIGIN_SECRET", "next")
    monkeypatch.setenv("ORIGIN_SECRET_BEFORE", "origin")
    deploy.handler(cloudformation.event("Update"), Context())
    digests = cloudformation.told[0]["Data"]["OriginDigest"]
    assert Settings.read({"TIDEMILL_ORIGIN_DIGEST": digests}).origin_digest == digests
    for header, is_known in {"another header": True, "a header": True, "a guess": False, digests: False}.items():
        assert came_through({"headers": {HEADER: header}}, digests) is is_known


def test_a_password_is_reset_into_the_secret_and_told_nowhere_else(
    secrets: Any, cloudformation: CloudFormation, empty_database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy.handler(cloudformation.event("Create"), Context())
    before = json.loads(secrets.get_secret_value(SecretId="first")["SecretString"])
    answer = deploy.handler({"reset_password": "ada@example.com"}, Context())
    after = json.loads(secrets.get_secret_value(SecretId="first")["SecretString"])
    assert answer == {"Email": "ada@example.com", "Secret": "first"}
    assert {**after, "password": ""} == {**before, "password": ""}
    assert after["password"] != before["password"]
    assert after["password"] not in "".join(capsys.readouterr())
    with psycopg.connect(empty_database) as conn:
        (kept,) = conn.execute("select password_hash from tidemill.users").fetchone() or ("",)
    assert matches(kept, after["password"])
    assert not matches(kept, before["password"])


def test_update_and_roll_back_change_nothing_that_is_there(secrets: Any, cloudformation: CloudFormation, empty_database: str) -> None:
    for kind in ("Create", "Update", "Update", "Delete"):
        deploy.handler(cloudformation.event(kind), Context())
    assert [told["Status"] for told in cloudformation.told] == ["SUCCESS"] * 4
    assert len({told["PhysicalResourceId"] for told in cloudformation.told}) == 1
    assert (count(empty_database, "users"), count(empty_database, "api_keys"), count(empty_database, "organizations")) == (1, 1, 1)


def test_a_failed_migration_is_told_with_its_reason_and_a_delete_still_succeeds(
    secrets: Any, cloudformation: CloudFormation, empty_database: str
) -> None:
    secrets.put_secret_value(SecretId="master", SecretString=json.dumps({"username": "nobody", "password": "wrong"}))
    deploy.handler(cloudformation.event("Create"), Context())
    deploy.handler(cloudformation.event("Delete"), Context())
    failed, deleted = cloudformation.told
    assert failed["Status"] == "FAILED"
    assert "the migrator failed: OperationalError" in failed["Reason"]
    assert "wrong" not in failed["Reason"]
    assert deleted["Status"] == "SUCCESS"


def test_delete_reads_no_secret(cloudformation: CloudFormation) -> None:
    deploy.handler(cloudformation.event("Delete"), Context())
    assert cloudformation.told[0]["Status"] == "SUCCESS"


def test_page_is_put_into_its_bucket(secrets: Any, cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    page = tmp_path / "index.html"
    page.write_text("<!doctype html><p>the page")
    monkeypatch.setattr(deploy, "PAGE", page)
    store = boto3.client("s3")
    store.create_bucket(Bucket="pages", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    deploy.handler(cloudformation.event("Create", "Custom::TidemillPage", Bucket="pages"), Context())
    assert cloudformation.told[0]["Status"] == "SUCCESS"
    found = store.get_object(Bucket="pages", Key="index.html")
    assert found["Body"].read() == page.read_bytes()
    assert (found["ContentType"], found["CacheControl"]) == ("text/html; charset=utf-8", "no-cache")
