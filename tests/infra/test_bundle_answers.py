"""Every handler answers an event from the staged folders alone, under Lambda's own runtime client and, where it is here, its Python."""

import ast
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.lambdas import Answered, Python, invoked
from harness.stages import ROOT
from infra import bundle

Invoke = Callable[..., Answered]


@pytest.fixture
def invoke(tmp_path: Path) -> Invoke:
    """A handler's answer to one event."""
    python, code, calls = Python.found(), bundle.code(), iter(range(10))
    return lambda name, event, **settings: invoked(python, code, tmp_path / str(next(calls)), name, event, **settings)


def http(method: str, path: str) -> dict[str, Any]:
    about = {"http": {"method": method, "path": path}, "requestId": "r", "stage": "$default"}
    return {
        "version": "2.0", "rawPath": path, "rawQueryString": "", "headers": {"host": "x"}, "isBase64Encoded": False,
        "requestContext": {**about, "authorizer": {"lambda": {"fault": "unauthenticated"}}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "path"), [("enqueue", "/v1/jobs"), ("claims", "/v1/claims"), ("admin", "/v1/queues"), ("scheduler", "/v1/tick")]
)
def test_api_function_answers_an_event(invoke: Invoke, name: str, path: str) -> None:
    got = invoke(name, http("GET" if name == "admin" else "POST", path))
    assert (got.kind, got.answer["statusCode"]) == ("response", 401)
    assert json.loads(got.answer["body"])["code"] == "unauthenticated"


def test_authorizer_answers_an_event(invoke: Invoke) -> None:
    got = invoke("authorizer", {"version": "2.0", "headers": {"authorization": "Bearer nonsense"}})
    assert got.answer == {"isAuthorized": True, "context": {"fault": "unauthenticated"}}


def test_scheduler_and_migrator_work_on_a_database(invoke: Invoke, empty_database: str) -> None:
    migrated = invoke("migrator", {}, TIDEMILL_DATABASE_URL=empty_database).answer
    assert migrated["Data"]["Version"] == max(migrated["Data"]["Applied"])
    ticked = invoke("scheduler", {}, TIDEMILL_DATABASE_URL=empty_database, TIDEMILL_TICK_BUDGET_MS="0").answer
    assert {phase["name"] for phase in ticked["phases"]} >= {"promote", "reap"}
    assert not [phase for phase in ticked["phases"] if phase.get("error")]


class Vendor:
    """A service of AWS or CloudFormation, as far as an HTTP request sees it: what it was sent, and one answer to all."""

    def __init__(self, answer: Any) -> None:
        self.seen: list[tuple[str, str, Any]] = []
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            def answered(self) -> None:
                seen.append((self.command, self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = answered  # noqa: N815 - the library's names

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Vendor":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_deploy_tells_cloudformation(invoke: Invoke) -> None:
    with Vendor({}) as cloudformation:
        event = {
            "RequestType": "Delete", "ResourceType": "Custom::TidemillSchema", "LogicalResourceId": "Schema", "StackId": "s",
            "RequestId": "q", "ResponseURL": cloudformation.address, "ResourceProperties": {"Stage": "dev"},
        }  # fmt: skip
        assert invoke("deploy", event).kind == "response"
    ((method, _, told),) = cloudformation.seen
    assert (method, told["Status"], told["PhysicalResourceId"]) == ("PUT", "SUCCESS", "tidemill-Schema")


def test_courier_asks_the_scheduler_through_the_service(invoke: Invoke) -> None:
    with Vendor({"calls": [], "counts": {"delivered": 2}}) as service:
        got = invoke("courier", {}, SCHEDULER="tidemill-dev-scheduler", AWS_ENDPOINT_URL_LAMBDA=service.address)
    assert (got.kind, got.answer) == ("response", {"delivered": 2})
    (method, path, asked) = service.seen[0]
    assert (method, path) == ("POST", "/2015-03-31/functions/tidemill-dev-scheduler/invocations")
    assert asked["courier"]["reports"] == []


def test_a_traceback_names_files_and_lines_of_the_repository(invoke: Invoke) -> None:
    """Without sources in the bundle a line's text is missing, and nothing else: what failed is found from the file and the number."""
    got = invoke("migrator", {}, TIDEMILL_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert (got.kind, got.answer["errorType"]) == ("error", "OperationalError")
    frames = re.findall(r'File "/var/task/([\w/]+\.py)", line (\d+), in (\w+)', "".join(got.answer["stackTrace"]))
    if bundle.python_of_runtime() is None:
        pytest.skip(f"no Python {bundle.RUNTIME} here: the bundle has sources, and places of this machine")
    assert ("migrator/handler.py", "handler") in [(file, function) for file, _, function in frames]
    for file, line, function in frames:
        assert function in functions_at(ROOT / "functions" / file, int(line))


def functions_at(path: Path, line: int) -> set[str]:
    """Names of the functions in whose bodies this line is."""
    tree = ast.parse(path.read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {node.name for node in found if node.body[0].lineno <= line <= (node.end_lineno or 0)}
