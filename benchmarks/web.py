"""The API over HTTP: the local gateway with the Lambda handlers behind it, as `tidemill dev` runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from benchmarks.clients import bodies
from benchmarks.measure import Say, Size
from benchmarks.results import Row
from benchmarks.workers import ROOT

READY_SECS = 60


def requests(size: Size, say: Say) -> list[Row]:
    """POST /v1/jobs and /v1/jobs/bulk. No ceiling beside it: what it adds to the rows above is the gateway and the handler."""
    rows = []
    with _instance() as ready:
        headers = {"Authorization": f"Bearer {ready['api_key']}"}
        for count in (1, 8):
            for per_call in (1, 100, 1_000):
                row = Row("http", f"{per_call:,} per call, {count} client{'s' * (count > 1)}", note="POST over HTTP, one handler process")
                jobs = [{**job, "queue": "default"} for job in bodies(per_call)]
                path, body = ("/v1/jobs", jobs[0]) if per_call == 1 else ("/v1/jobs/bulk", {"jobs": jobs, "atomic": True})
                for _ in range(size.runs):
                    row.ours.append(_rate(ready["url"] + path, headers, body, count, per_call, size.secs))
                rows.append(row)
                say(f"http, {row.what}: {row.ours[-1]:,.0f}/s")
    return rows


def _rate(url: str, headers: dict[str, str], body: Any, count: int, per_call: int, secs: float) -> float:
    calls = [0] * count
    faults: list[str] = []

    def loop(place: int) -> None:
        with httpx.Client(headers=headers, timeout=30) as client:
            while time.monotonic() < until:
                answer = client.post(url, json=body)
                if answer.status_code >= 300:
                    faults.append(answer.text[:300])
                    return
                calls[place] += 1

    began = time.monotonic()
    until = began + secs
    threads = [threading.Thread(target=loop, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise RuntimeError(faults[0])
    return sum(calls) * per_call / (time.monotonic() - began)


@contextmanager
def _instance() -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "tidemill.cli", "dev", "--ephemeral", "--no-worker", "--no-ticks", "--port", "0", "--json"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TIDEMILL_")}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    guard = threading.Timer(READY_SECS, process.kill)
    guard.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        guard.cancel()
        if not line:
            raise RuntimeError("tidemill dev did not become ready")
        yield json.loads(line)
    finally:
        guard.cancel()
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
