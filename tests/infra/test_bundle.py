"""The bundle as Lambda sees it: small and complete, in an interpreter that knows nothing else (how long imports take: test_cold_start)."""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from infra import bundle

HANDLERS = ["enqueue", "claims", "admin", "scheduler", "authorizer", "migrator", "deploy", "courier"]
MB = 1_000_000
HEADERS = {"Aws-Request-Id": "r-1", "Invoked-Function-Arn": "arn:aws:lambda:x:0:function:f", "Trace-Id": "Root=1"}


@pytest.fixture(scope="module")
def code() -> Path:
    return bundle.code()


@pytest.fixture(scope="module")
def python() -> tuple[Path, Path]:
    """An interpreter and the dependencies for it."""
    interpreter, version = bundle.test_python()
    return interpreter, bundle.layer(bundle.host(), version)


def zipped(folder: Path, at: Path, *, left_out: str = "") -> int:
    if left_out:
        folder = Path(shutil.copytree(folder, at / "copy", ignore=shutil.ignore_patterns(left_out)))
    return Path(shutil.make_archive(str(at / "z"), "zip", folder)).stat().st_size


def alone(python: tuple[Path, Path], code: Path, program: str) -> str:
    """What a program prints that finds the standard library, the code and the layer, and nothing of this machine."""
    interpreter, layer = python
    begin = "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]\n"
    begin += f"sys.path[:0] = [{str(code)!r}, {str(layer / 'python')!r}]\n"
    done = subprocess.run([str(interpreter), "-I", "-S", "-B", "-c", begin + program], capture_output=True, text=True, check=False, env={})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_code_is_at_most_a_megabyte_and_three_quarters_of_that_more_with_what_is_compiled(code: Path, tmp_path: Path) -> None:
    assert zipped(code, tmp_path, left_out="*.pyc") <= 1 * MB
    assert zipped(code, tmp_path) <= 1.75 * MB


def test_layer_is_at_most_twelve_megabytes(tmp_path: Path) -> None:
    assert zipped(bundle.layer(), tmp_path) <= 12 * MB


def test_layer_is_for_arm_and_for_this_python(code: Path) -> None:
    libraries = [path.name for path in bundle.layer().rglob("*.so")]
    assert libraries
    assert not [name for name in libraries if "x86_64" in name]
    assert [name for name in libraries if "cpython-313-aarch64" in name]


def test_code_brings_its_migrations_certificates_and_page_and_no_worker(code: Path) -> None:
    assert list((code / "migrations").glob("0001_*.sql"))
    assert (code / "tidemill" / "store" / "rds-ca.pem").is_file()
    assert (code / "page" / "index.html").is_file()
    assert not (code / "runner").exists()
    assert not (code / "tidemill" / "local").exists()


@pytest.mark.parametrize("name", HANDLERS)
def test_handler_imports_from_the_bundle_alone(python: tuple[Path, Path], code: Path, name: str) -> None:
    program = f"import {name}.handler, sys; print(sys.version_info[:2], {name}.handler.__file__)"
    said = alone(python, code, program)
    assert str(code) in said


class Runtime:
    """Lambda's runtime API for one event: hands it out, keeps the answer."""

    def __init__(self, event: dict[str, Any]) -> None:
        self.answers: queue.Queue[tuple[str, bytes]] = queue.Queue()
        waiting: queue.Queue[bytes | None] = queue.Queue()
        waiting.put(json.dumps(event).encode())
        answers = self.answers

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = waiting.get()
                if body is None:
                    return
                self.send_response(200)
                for name, value in HEADERS.items():
                    self.send_header(f"Lambda-Runtime-{name}", value)
                self.send_header("Lambda-Runtime-Deadline-Ms", str(round((time.time() + 60) * 1000)))
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                answers.put((self.path, self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(202)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._waiting = waiting
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._waiting.put(None)
        self.server.shutdown()
        self.server.server_close()


def invoked(code: Path, name: str, event: dict[str, Any], **settings: str) -> tuple[str, Any]:
    """(path of the runtime API, answer) of a handler of the bundle, under the vendor's runtime client of this environment."""
    runtime = Runtime(event)
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(code), "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{runtime.server.server_port}",
        "AWS_LAMBDA_FUNCTION_NAME": name, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512", "AWS_LAMBDA_FUNCTION_VERSION": "1",
        "AWS_REGION": "eu-central-1",
        "TIDEMILL_STAGE": "test", "PYTHONDONTWRITEBYTECODE": "1", **settings,
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "awslambdaric", f"{name}.handler.handler"],
        cwd=code,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        path, body = runtime.answers.get(timeout=60)
    finally:
        process.kill()
        process.wait()
        runtime.close()
    return path, json.loads(body)


def http(method: str, path: str) -> dict[str, Any]:
    about = {"http": {"method": method, "path": path}, "requestId": "r", "stage": "$default"}
    return {
        "version": "2.0", "rawPath": path, "rawQueryString": "", "headers": {"host": "x"}, "isBase64Encoded": False,
        "requestContext": {**about, "authorizer": {"lambda": {"fault": "unauthenticated"}}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "path"), [("enqueue", "/v1/jobs"), ("claims", "/v1/claims"), ("admin", "/v1/queues"), ("scheduler", "/v1/tick")]
)
def test_api_function_answers_an_event_from_the_bundle(code: Path, name: str, path: str) -> None:
    where, answer = invoked(code, name, http("GET" if name == "admin" else "POST", path))
    assert where.endswith("/r-1/response")
    assert answer["statusCode"] == 401
    assert json.loads(answer["body"])["code"] == "unauthenticated"


def test_authorizer_answers_an_event_from_the_bundle(code: Path) -> None:
    _, answer = invoked(code, "authorizer", {"version": "2.0", "headers": {"authorization": "Bearer nonsense"}})
    assert answer == {"isAuthorized": True, "context": {"fault": "unauthenticated"}}


def test_scheduler_and_migrator_work_on_a_database_from_the_bundle(code: Path, empty_database: str) -> None:
    _, migrated = invoked(code, "migrator", {}, TIDEMILL_DATABASE_URL=empty_database)
    assert migrated["Data"]["Version"] == max(migrated["Data"]["Applied"])
    _, ticked = invoked(code, "scheduler", {}, TIDEMILL_DATABASE_URL=empty_database, TIDEMILL_TICK_BUDGET_MS="0")
    assert {phase["name"] for phase in ticked["phases"]} >= {"promote", "reap"}
    assert not [phase for phase in ticked["phases"] if phase.get("error")]
