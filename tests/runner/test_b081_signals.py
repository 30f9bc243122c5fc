"""B081: a stop reaches the worker whenever it comes, also as process 1, and what handlers started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.clock import allowed
from harness.mill import Mill
from harness.working import ROOT, WorkerProcess, eventually
from tidemill.engine.worker import command as leave_command

SLOW_APP = """
import pathlib, threading
pathlib.Path({flag!r}).touch()
threading.Event().wait(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_b081_a_signal_while_the_app_loads_ends_the_worker_at_once(mill: Mill, tmp_path: Path, number: signal.Signals) -> None:
    flag = tmp_path / "loading"
    (tmp_path / "slow_app.py").write_text(SLOW_APP.format(flag=str(flag)))
    with WorkerProcess(mill, app="slow_app:app", environment={"PYTHONPATH": f"{tmp_path}:{ROOT / 'functions'}"}) as worker:
        eventually(flag.exists)
        sent = worker.signal(number)
        assert worker.ended() == 0
        assert time.monotonic() - sent < allowed(1.0)
    assert mill.count("workers") == 0


def test_b081_the_containers_entry_hears_signals_before_it_loads_anything(tmp_path: Path) -> None:
    """Handlers are set before the package is imported: here its import blocks, and the signal still ends the process, with 0."""
    package = tmp_path / "tidemill"
    package.mkdir()
    (package / "__init__.py").write_text(SLOW_APP.format(flag=str(tmp_path / "loading")))
    process = subprocess.Popen(
        [sys.executable, "-P", str(ROOT / "functions" / "runner" / "main.py"), "x:app"], env={"PYTHONPATH": str(tmp_path)}
    )
    eventually((tmp_path / "loading").exists)
    process.terminate()
    assert process.wait(40) == 0  # the app alone would take 60


def test_b081_the_containers_entry_runs_a_worker_as_process_1(mill: Mill, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    job_id = mill.new(job_type="hold", payload={"secs": 1, "trace": str(trace)})
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT / 'functions'}:{ROOT / 'tests'}"}
    command = [sys.executable, "-P", str(ROOT / "functions" / "runner" / "main.py"), "harness.jobs:app", "--dsn", mill.dsn]
    if subprocess.run(["unshare", "--pid", "--fork", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no rights here to make a process namespace: the same entry is tested as an ordinary process")
    outer = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", *command, "--project", mill.project_id], env=environment)
    eventually(trace.exists)
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    assert outer.wait(120) == 0
    assert mill.state(job_id) == "completed"


@pytest.mark.parametrize("apart", [False, True])
def test_b081_processes_that_handlers_left_behind_end_with_the_worker(mill: Mill, tmp_path: Path, apart: bool) -> None:
    trace = tmp_path / "t"
    mill.new(job_type="parent", payload={"secs": 0, "trace": str(trace), "apart": apart})
    with WorkerProcess(mill, "--stop-window-secs", "2") as worker:
        eventually(lambda: trace.exists() and trace.read_text())
        pid = int(trace.read_text())
        assert Path(f"/proc/{pid}").exists()
        worker.signal()
        assert worker.ended() == 0
    eventually(lambda: _is_gone(pid))


def test_b081_a_killed_worker_takes_its_job_processes_along(mill: Mill, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    mill.new(job_type="hold.process", payload={"trace": str(trace)})
    with WorkerProcess(mill) as worker:
        eventually(lambda: trace.exists() and trace.read_text())
        pid = int(trace.read_text().split()[1])
        worker.signal(signal.SIGKILL)
        assert worker.ended() == -signal.SIGKILL
    eventually(lambda: _is_gone(pid))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.jobs:app"], "there is no module 'nowhere'"),
        (["harness.jobs:nothing"], "has no App called 'nothing'; it has harness.jobs:app"),
        (["not a path"], "is no module:app"),
        (["harness.jobs:app", "--queues", "default,missing"], "no queue 'missing'"),
        (["harness.jobs:app", "--queues", "two words"], "queues[0]: 'two words' must be 1 to 200 characters"),
        (["harness.jobs:app", "--concurrency", "0"], "concurrency: 0 is outside 1 to 10,000"),
        (["harness.jobs:app", "--project", "00000000-0000-0000-0000-000000000000"], "no project"),
    ],
)
def test_b081_what_is_wrong_with_a_command_is_one_clear_line(mill: Mill, arguments: list[str], words: str) -> None:
    app, *options = arguments
    with WorkerProcess(mill, *options, app=app) as worker:
        assert worker.ended() == 2
    assert len(worker.words) == 1, worker.words
    assert words in worker.words[0]
    assert worker.events == []


def _is_gone(pid: int) -> bool:
    """True once it is dead, be it that nobody has asked for its exit code yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_b081_the_command_restart_begins_the_worker_anew_in_its_place(mill: Mill) -> None:
    with WorkerProcess(mill, "--lease-secs", "1") as worker:
        first = worker.saw("started")["worker_id"]
        leave_command(mill.store, mill.project_id, first, "restart")
        eventually(lambda: len([line for line in worker.events if line["event"] == "started"]) == 2)
        second = worker.events[-1]["worker_id"]
        assert second != first
        row = mill.conn.execute("select id::text, pid from tidemill.workers").fetchall()
        assert row == [(second, worker.pid)]
        worker.signal()
        assert worker.ended() == 0
