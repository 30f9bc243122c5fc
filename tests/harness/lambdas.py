"""Lambda on this machine: a function of the bundle under the vendor's runtime client, which gets one event and brings one answer."""

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from harness.cloud import RUNTIME_BRINGS, SITE
from infra import bundle

HEADERS = {"Aws-Request-Id": "r-1", "Invoked-Function-Arn": "arn:aws:lambda:x:0:function:f", "Trace-Id": "Root=1"}
_RUN = """
import runpy, sys
sys.path = [{code!r}, *{rest!r}, *(path for path in sys.path if path and "site-packages" not in path)]
sys.argv = ["awslambdaric", {handler!r}]
runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True)
class Python:
    """Lambda's Python as far as this machine has it: the interpreter, the layer, and what the runtime brings."""

    path: Path
    layer: Path
    runtime: Path

    @classmethod
    def found(cls) -> "Python":
        interpreter, version = bundle.test_python()
        return cls(interpreter, bundle.layer(bundle.host(), version) / "python", bundle.runtime(version) / "python")

    def program(self, code: Path, program: str) -> str:
        """What a program prints that finds the standard library, the code and the layer, and nothing of this machine."""
        begin = "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]\n"
        begin += f"sys.path[:0] = [{str(code)!r}, {str(self.layer)!r}]\n"
        done = subprocess.run(
            [str(self.path), "-I", "-S", "-B", "-c", begin + program], capture_output=True, text=True, check=False, env={}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@dataclass
class Answered:
    """`kind`: response or error. `said`: what the function has written until then."""

    kind: str
    answer: Any
    said: str = field(repr=False)


def invoked(python: Python, code: Path, folder: Path, name: str, event: dict[str, Any], **settings: str) -> Answered:
    """A handler's answer to one event. `folder`: an empty one, for what belongs to the process."""
    brought = folder / "brought"
    brought.mkdir(parents=True)
    for each in RUNTIME_BRINGS:
        (brought / each).symlink_to(SITE / each)
    answers: queue.Queue[tuple[str, Any]] = queue.Queue()
    with one_event(event, lambda *told: answers.put(told)) as address, (folder / "said").open("wb") as said:
        environment = {
            "PATH": os.environ["PATH"], "AWS_LAMBDA_RUNTIME_API": address, "AWS_LAMBDA_FUNCTION_NAME": name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512", "AWS_LAMBDA_FUNCTION_VERSION": "1",
            "AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x", "LAMBDA_TASK_ROOT": str(code), "TIDEMILL_STAGE": "test", **settings,
        }  # fmt: skip
        rest = [str(python.layer), str(python.runtime), str(brought)]
        run = _RUN.format(code=str(code), rest=rest, handler=f"{name}.handler.handler")
        command = [str(python.path), "-S", "-B", "-c", run]
        process = subprocess.Popen(command, cwd=code, env=environment, stdout=said, stderr=subprocess.STDOUT)
        try:
            path, answer = answers.get(timeout=120)
        finally:
            process.kill()
            process.wait()
    return Answered(path.rpartition("/")[2], answer, (folder / "said").read_text())


@contextmanager
def one_event(event: dict[str, Any], told: Callable[[str, Any], None]) -> Iterator[str]:
    """host:port of Lambda's runtime API, which hands out this one event and keeps whoever asks for another waiting."""
    waiting: queue.Queue[bytes | None] = queue.Queue()
    waiting.put(json.dumps(event).encode())

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
            told(self.path, json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        waiting.put(None)
        server.shutdown()
        server.server_close()
