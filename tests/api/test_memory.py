"""A handler's process stays flat: thousands of requests leave nothing behind, counted by the block and by the megabyte."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from api.gateway import Gateway

TESTS = Path(__file__).resolve().parents[1]
REQUESTS = 2_000 if os.environ.get("TIDEMILL_TEST_FULL_SIZE") else 1_000
MOST_MB = 1.5
MOST_BLOCKS = REQUESTS // 4
"""What the interpreter may hold more than before. A leak of one object, or one entry of a cache, per request would be REQUESTS."""

PROGRAM = """
import gc, json, sys
import psutil
from api.gateway import Context, event_v2
from tidemill.config import Settings
from tidemill.http.app import App
from tidemill.http.dispatch import Dispatcher

dsn, project_id, requests = sys.argv[1:]
app = App("enqueue", Dispatcher(settings=Settings(stage="test", database_url=dsn)))
said = {"fault": "", "principal_kind": "api_key", "principal_id": "k", "project_id": project_id, "scopes": "enqueue,read"}
ids = []

def send(method, path, body=None, **query):
    event = event_v2(method, path, body=body, query=query)
    event["requestContext"]["authorizer"] = {"lambda": said}
    return app(event, Context())

def one(number):
    kind = number % 8
    if kind < 3:
        answer = send("POST", "/v1/jobs", {"job_type": "t", "payload": {"n": number, "text": "x" * 1000}})
        assert answer["statusCode"] == 201
        ids.append(json.loads(answer["body"])["job"]["id"])
        del ids[:-50]
    elif kind == 3:
        assert send("POST", "/v1/jobs/bulk", {"jobs": [{"job_type": "t"}] * 5})["statusCode"] == 200
    elif kind == 4:
        assert send("GET", "/v1/jobs", limit=5)["statusCode"] == 200
    elif kind == 5:
        assert send("GET", f"/v1/jobs/{ids[-1]}")["statusCode"] == 200
    elif kind == 6:
        assert send("POST", "/v1/jobs", {"job_type": "no good", f"field{number}": number})["statusCode"] == 422
    else:
        assert send("GET", f"/v1/nothing/{number}")["statusCode"] == 404

def held():
    gc.collect()
    return sys.getallocatedblocks()

def rss_mb():
    return psutil.Process().memory_info().rss / 1e6

for number in range(500):
    one(number)
blocks, before, most = held(), rss_mb(), 0.0
for number in range(int(requests)):
    one(number)
    if number % 500 == 499:
        most = max(most, rss_mb())
print(json.dumps({"blocks": held() - blocks, "before": before, "most": most, "after": rss_mb()}))
"""


def test_an_enqueue_process_stays_flat_over_thousands_of_requests(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    environment = {"PYTHONPATH": os.pathsep.join([str(TESTS.parent / "functions"), str(TESTS)]), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", PROGRAM, gateway.dsn, gateway.project_id, str(REQUESTS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    with capsys.disabled():
        print(f"\n{REQUESTS:,} requests: {seen['blocks']:+,} blocks, {seen['before']:.1f} MB before, at most {seen['most']:.1f}", end=" ")
    assert seen["blocks"] <= MOST_BLOCKS
    assert abs(seen["after"] - seen["before"]) <= MOST_MB
    assert seen["most"] - seen["before"] <= MOST_MB
