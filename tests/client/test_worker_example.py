"""The worker of docs/worker-protocol.md, in JavaScript, run for real against a local instance."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.instance import Instance
from harness.outage import Proxy
from tidemill.client import Client, Job

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "worker.mjs"
NODE = shutil.which("node")
BOUND_SECS = 120


def node_is_fit() -> bool:
    if NODE is None:
        return False
    version = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.", version)
    return found is not None and int(found[1]) >= 18


pytestmark = pytest.mark.skipif(not node_is_fit(), reason="the example worker needs Node >= 18 on the PATH")


@pytest.fixture
def client(instance: Instance) -> Iterator[Client]:
    with Client(instance.url, instance.api_key) as made:
        yield made


@contextmanager
def worker(instance: Instance, tmp_path: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    assert NODE is not None
    with (tmp_path / "worker.log").open("ab") as log:
        variables = {"PATH": os.environ["PATH"], "TIDEMILL_URL": instance.url, "TIDEMILL_API_KEY": instance.api_key}
        variables |= {"LEASE_MS": "3000", "STOP_MS": "100"} | environment
        process = subprocess.Popen([NODE, str(EXAMPLE)], stderr=log, env=variables)
        try:
            yield process
        finally:
            process.terminate()  # not killed: its open claim would take the next test's job and lose it
            try:
                process.wait(BOUND_SECS)
            finally:
                process.kill()
                process.wait()


def until(client: Client, job_id: str, is_so: Callable[[Job], bool]) -> Job:
    """The job as soon as it is so."""
    ends_at = time.monotonic() + BOUND_SECS
    while not is_so(job := client.get_job(job_id)):
        assert time.monotonic() < ends_at, f"still {job.state}"
        time.sleep(0.05)
    return job


def test_it_works_jobs_off_and_fails_what_fails(instance: Instance, client: Client, tmp_path: Path) -> None:
    total = client.enqueue("numbers.sum", {"numbers": [1, 2, 39]})
    text = client.enqueue("text.reverse", {"text": "tide"})
    bad = client.enqueue("numbers.sum", {"numbers": None}, max_attempts=1)
    other = client.enqueue("nobody.knows")
    with worker(instance, tmp_path):
        assert until(client, total.id, lambda job: job.is_final).result == {"sum": 42}
        assert until(client, text.id, lambda job: job.is_final).result == "edit"
        assert until(client, bad.id, lambda job: job.is_final).state == "dead_letter"
    [attempt] = client.executions(bad.id)
    assert (attempt.status, attempt.raw["error"]["class"]) == ("failed", "TypeError")
    assert client.get_job(other.id).state == "queued", "it claims only what it has handlers for"
    client.cancel(other.id)


def test_it_obeys_a_cancel(instance: Instance, client: Client, tmp_path: Path) -> None:
    job = client.enqueue("wait", {"ms": 600_000})
    with worker(instance, tmp_path):
        until(client, job.id, lambda found: found.state == "running")
        client.cancel(job.id)
        assert until(client, job.id, lambda found: found.is_final).state == "cancelled"


def test_sigterm_finishes_what_runs_gives_back_the_rest_and_exits_0(instance: Instance, client: Client, tmp_path: Path) -> None:
    short, long = client.enqueue("wait", {"ms": 1_500}), client.enqueue("wait", {"ms": 600_000})
    with worker(instance, tmp_path, STOP_MS="3000") as process:
        for job in (short, long):
            until(client, job.id, lambda found: found.state == "running")
        process.send_signal(signal.SIGTERM)
        late = client.enqueue("wait", {"ms": 1}, delay_ms=200)
        assert process.wait(BOUND_SECS) == 0
    assert client.get_job(short.id).state == "completed"
    given_back = client.get_job(long.id)
    assert (given_back.state, given_back.attempt_count) == ("queued", 0)
    assert client.get_job(late.id).attempt_count == 0
    for job in (long, late):
        client.cancel(job.id)


def test_it_keeps_its_acks_while_the_api_is_away(instance: Instance, client: Client, tmp_path: Path) -> None:
    job = client.enqueue("wait", {"ms": 1_000})
    with Proxy(instance.url) as proxy:
        with worker(Instance(proxy.url, instance.api_key, instance.project_id, instance.dsn), tmp_path):
            until(client, job.id, lambda found: found.state == "running")
            proxy.is_down = True
            proxy.refused.wait(BOUND_SECS)
            assert client.get_job(job.id).state == "running"
            proxy.is_down = False
            done = until(client, job.id, lambda found: found.is_final)
    assert (done.state, done.attempt_count) == ("completed", 1)


def test_it_is_short_and_has_no_dependencies() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    assert not re.findall(r"^import .* from \"(?!node:)", text, re.MULTILINE)
