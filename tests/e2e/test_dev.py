"""`tidemill dev` as a user meets it: the line it prints, jobs through its key, what it refuses, what it keeps."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from harness.dev import Dev, cli, environment, has_ended, until

FIELDS = ["url", "api_key", "project_id", "admin_email", "admin_password", "dsn", "page"]


@pytest.fixture(scope="module")
def kept_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "data"


def test_it_prints_one_json_line_and_nothing_else(dev: Dev) -> None:
    assert len(dev.lines) == 1
    about = json.loads(dev.lines[0])
    assert list(about) == FIELDS
    assert all(isinstance(value, str) and value for value in about.values())
    assert about["page"] == about["url"] + "/"
    assert about["api_key"].startswith("tm_local_")
    assert "@" in about["admin_email"]


def test_it_is_ready_when_it_says_so(api: httpx.Client) -> None:
    assert api.get("/healthz").status_code == 200
    assert api.get("/readyz").json()["status"] == "ready"


def test_a_start_costs_a_few_seconds_of_processor_time() -> None:
    """Wall time says more about who else is at work: 2 to 3 s for it on an idle machine with two cores."""
    began = time.monotonic()
    with Dev("--ephemeral", "--port", "0", "--no-worker", "--no-ticks") as dev:
        dev.ready()
        took_s = time.monotonic() - began
        own = psutil.Process(dev.process.pid).cpu_times()
        cpu_s = sum(own[:4])
        for process in dev.family():
            with contextlib.suppress(psutil.Error):
                cpu_s += sum(process.cpu_times()[:2])
    print(f"ready after {took_s:.2f} s, {cpu_s:.2f} s of processor time")
    assert cpu_s < 12  # 2.9 s


def test_a_job_goes_in_with_the_printed_key(dev: Dev, api: httpx.Client) -> None:
    made = api.post("/v1/jobs", json={"job_type": "e2e.first", "payload": {"n": 1}})
    assert made.status_code == 201
    with psycopg.connect(dev.dsn) as conn:
        row = conn.execute("select project_id::text, payload from tidemill.jobs where id = %s", [made.json()["job"]["id"]]).fetchone()
    assert row == (dev.about["project_id"], {"n": 1})


def test_a_job_is_claimed_and_acked_over_http(api: httpx.Client) -> None:
    made = api.post("/v1/jobs", json={"job_type": "e2e.travels"}).json()["job"]["id"]
    worker = api.post("/v1/workers", json={"name": "w", "queues": ["default"], "job_types": ["e2e.travels"], "max_concurrency": 1}).json()
    claim = {"worker_id": worker["worker_id"], "queues": ["default"], "limit": 5, "job_types": ["e2e.travels"]}
    (job,) = api.post("/v1/claims", json=claim).json()["jobs"]
    assert job["id"] == made
    acks = {"acks": [{"job_id": made, "lease_token": job["lease_token"], "outcome": "complete", "result": 42}]}
    assert api.post("/v1/acks", json=acks).json()["results"][0]["state"] == "completed"


def test_many_open_pages_leave_room_for_what_they_ask(dev: Dev, api: httpx.Client) -> None:
    """Each tab waits for changes with a call of its own, also a while after it was closed."""
    cursor = api.get("/v1/changes").json()["cursor"]
    over = threading.Event()
    begun = threading.Barrier(9)

    def watch() -> None:
        with dev.client() as client:
            begun.wait(120)
            while not over.is_set():
                client.get("/v1/changes", params={"since": cursor, "wait_ms": 15_000})

    tabs = [threading.Thread(target=watch) for _ in range(8)]
    for tab in tabs:
        tab.start()
    begun.wait(120)
    assert [api.get("/v1/queues").status_code for _ in range(20)] == [200] * 20
    over.set()
    api.post("/v1/jobs", json={"job_type": "e2e.seen"})
    for tab in tabs:
        tab.join(120)


def test_a_long_poll_ends_when_a_job_comes_and_short_calls_pass_it_meanwhile(dev: Dev, api: httpx.Client) -> None:
    worker = api.post("/v1/workers", json={"name": "w", "queues": ["default"], "job_types": ["e2e.awaited"], "max_concurrency": 1}).json()
    claim = {"worker_id": worker["worker_id"], "queues": ["default"], "limit": 1, "job_types": ["e2e.awaited"], "wait_ms": 20_000}
    begun = threading.Barrier(13)
    jobs: list[str] = []
    refused: list[httpx.Response] = []

    def poll() -> None:
        """As a worker does: told to come back, it comes back."""
        with dev.client() as client:
            begun.wait(120)
            while True:
                answer = client.post("/v1/claims", json=claim)
                if answer.status_code == 503:
                    refused.append(answer)
                elif found := answer.json()["jobs"]:
                    jobs.append(found[0]["id"])
                    return

    pollers = [threading.Thread(target=poll) for _ in range(12)]
    for poller in pollers:
        poller.start()
    begun.wait(120)
    for _ in range(20):
        assert api.post("/v1/acks", json={"acks": []}).status_code in (200, 422)
    assert jobs == []
    made = api.post("/v1/jobs/bulk", json={"jobs": [{"job_type": "e2e.awaited"}] * 12}).json()
    for poller in pollers:
        poller.join(120)
    assert sorted(jobs) == sorted(item["job_id"] for item in made["results"])
    assert all(answer.headers["retry-after"] for answer in refused)


def test_wrong_and_missing_keys_are_401_in_our_form(dev: Dev) -> None:
    for headers in ({}, {"authorization": "Bearer tm_local_wrong"}, {"authorization": "Basic x"}):
        answer = httpx.post(f"{dev.url}/v1/jobs", json={"job_type": "a"}, headers=headers, verify=False)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert answer.headers["content-type"] == "application/problem+json"


def test_the_page_is_served(dev: Dev) -> None:
    answer = httpx.get(dev.about["page"], verify=False)
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_it_ticks_by_itself(dev: Dev, api: httpx.Client) -> None:
    """A job whose lease ran out is reaped though nobody asks for a tick."""
    made = api.post("/v1/jobs", json={"job_type": "e2e.lost", "max_attempts": 1}).json()["job"]["id"]
    worker = api.post("/v1/workers", json={"name": "w", "queues": ["default"], "job_types": ["e2e.lost"], "max_concurrency": 1}).json()
    claim = {"worker_id": worker["worker_id"], "queues": ["default"], "limit": 1, "job_types": ["e2e.lost"], "lease_ms": 1_000}
    assert len(api.post("/v1/claims", json=claim).json()["jobs"]) == 1
    with psycopg.connect(dev.dsn, autocommit=True) as conn:
        until(
            lambda: conn.execute("select status::text from tidemill.job_states where id = %s", [made]).fetchone() == ("dead_letter",),
            what="the reaper's visit",
        )


def test_everything_listens_on_the_loopback_address_only(dev: Dev) -> None:
    listening = [
        connection.laddr.ip
        for process in [psutil.Process(dev.process.pid), *dev.family()]
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert set(listening) == {"127.0.0.1"}


def test_a_function_that_is_killed_is_replaced(dev: Dev, api: httpx.Client) -> None:
    api.post("/v1/jobs", json={"job_type": "a"})
    killed = dev.running("enqueue.handler")
    for process in killed:
        process.kill()
    until(lambda: all(has_ended(process.pid) for process in killed))
    assert killed
    assert [api.post("/v1/jobs", json={"job_type": "a"}).status_code for _ in range(5)] == [201] * 5


def test_a_port_in_use_is_one_clear_line_and_exit_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli("dev", "--ephemeral", "--port", str(port))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tidemill: port {port} on 127.0.0.1 is in use; choose another with --port, or --port 0 for any\n"


def test_a_folder_that_cannot_be_used_is_one_clear_line_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = cli("dev", "--data-dir", str(tmp_path / "file" / "data"), "--port", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tidemill: data folder {tmp_path}/file/data: cannot be made: ")
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "file").read_text() == "not a folder"


def test_data_of_another_version_is_one_clear_line_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "PG_VERSION").write_text("12\n")
    done = cli("dev", "--data-dir", str(tmp_path), "--port", "0")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "made by PostgreSQL 12" in done.stderr


def test_ephemeral_and_a_folder_exclude_each_other(tmp_path: Path) -> None:
    done = cli("dev", "--ephemeral", "--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")


def test_an_unsupported_python_is_one_clear_line_and_exit_2() -> None:
    program = "import sys; sys.version_info = (3, 10, 4); from tidemill.cli import main; sys.exit(main(['dev']))"
    done = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "tidemill: needs Python 3.11 or newer, this is 3.10.4\n")


def test_a_second_start_keeps_jobs_key_and_password(kept_folder: Path) -> None:
    arguments = ("--data-dir", str(kept_folder), "--port", "0", "--no-worker")
    with Dev(*arguments) as dev:
        first = dev.ready().about
        with dev.client() as client:
            made = client.post("/v1/jobs", json={"job_type": "kept", "delay_ms": 3_600_000}).json()["job"]["id"]
        busy = cli("dev", *arguments)
        assert busy.returncode == 2
        assert f"in use by process {dev.process.pid}" in busy.stderr
        assert dev.end() == 0
    with Dev(*arguments) as dev:
        second = dev.ready().about
        with psycopg.connect(dev.dsn) as conn:
            assert conn.execute("select id::text, job_type::text from tidemill.jobs").fetchall() == [(made, "kept")]
        with dev.client() as client:
            assert client.post("/v1/jobs", json={"job_type": "more"}).status_code == 201
        assert dev.end() == 0
    same = ("api_key", "project_id", "admin_email", "admin_password")
    assert [first[name] for name in same] == [second[name] for name in same]


def test_secrets_in_the_kept_folder_are_for_its_owner_only(kept_folder: Path) -> None:
    for name in ("dev.json", "password"):
        assert stat.S_IMODE((kept_folder / name).stat().st_mode) == 0o600, name


def test_the_key_is_in_no_log_and_no_command_line(dev: Dev, api: httpx.Client) -> None:
    api.post("/v1/jobs", json={"job_type": "a", "payload": {"card": "4111-1111"}})
    secret = dev.about["api_key"].rpartition("_")[2]
    said = "".join(dev.errors)
    for hidden in (secret, dev.about["admin_password"], "4111-1111"):
        assert hidden not in said
        assert dev.running(hidden) == []


def test_a_database_server_that_ends_is_started_again(api: httpx.Client, dev: Dev) -> None:
    with psycopg.connect(dev.dsn, autocommit=True) as conn:
        row = conn.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        postmaster = psutil.Process(row[0]).ppid()
    os.kill(postmaster, signal.SIGQUIT)
    until(lambda: has_ended(postmaster))
    until(lambda: api.get("/readyz").status_code == 200)
    assert api.post("/v1/jobs", json={"job_type": "after"}).status_code == 201
