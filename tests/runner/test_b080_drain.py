"""B080: SIGTERM ends claiming, lets jobs finish, gives the rest back; exit 0 within the window. Real processes, short windows."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.clock import allowed
from harness.mill import Mill
from harness.working import WorkerProcess, eventually

WINDOW_SECS = 4.0
WINDOW = ("--stop-window-secs", str(WINDOW_SECS))
QUEUES = ("--queues", "default,a,b")


@pytest.fixture
def queues(mill: Mill) -> Iterator[Mill]:
    mill.queue("a")
    mill.queue("b")
    return mill


def claimed_since(mill: Mill, at: Any) -> int:
    """Leases and ended attempts that began after that instant of the database."""
    row = mill.conn.execute(
        "select (select count(*) from tidemill.job_leases where claimed_at > %(at)s)"
        " + (select count(*) from tidemill.job_executions where started_at > %(at)s)",
        {"at": at},
    ).fetchone()
    assert row is not None
    return int(row[0])


def now(mill: Mill) -> Any:
    row = mill.conn.execute("select clock_timestamp()").fetchone()
    assert row is not None
    return row[0]


def test_b080_short_jobs_finish_and_long_ones_go_back_without_an_attempt_spent(queues: Mill, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    short = [queues.new(job_type="hold", queue=q, payload={"secs": 1, "trace": str(trace)}) for q in ("default", "a", "b")]
    long = [
        queues.new(job_type="hold", queue=q, payload={"secs": secs, "trace": str(trace)})
        for q, secs in (("default", 20), ("a", 300), ("b", 300))
    ]
    with WorkerProcess(queues, *QUEUES, *WINDOW, "--concurrency", "8") as worker:
        eventually(lambda: trace.exists() and len(trace.read_text().splitlines()) == 6)
        sent = worker.signal()
        at = now(queues)
        worker.saw("stopping")
        waiting = [queues.new(job_type="noop", queue=q) for q in ("default", "a", "b")]
        assert worker.ended() == 0
        took = time.monotonic() - sent
    assert took < allowed(WINDOW_SECS)  # one window for all queues
    assert [queues.state(job_id) for job_id in short] == ["completed"] * 3
    assert [queues.state(job_id) for job_id in long] == ["queued"] * 3
    assert [queues.view(job_id)["attempt_count"] for job_id in long] == [0] * 3
    assert [x["status"] for job_id in long for x in queues.executions(job_id)] == ["released"] * 3
    assert [queues.state(job_id) for job_id in waiting] == ["queued"] * 3
    assert claimed_since(queues, at) == 0
    assert len(queues.claim(10, queues=("default", "a", "b"))) == 6  # at once, not at some lease's end
    assert queues.count("workers") == 0
    assert queues.misplaced() == []


def test_b080_an_idle_worker_stops_at_once(mill: Mill) -> None:
    with WorkerProcess(mill, *WINDOW) as worker:
        worker.saw("started")
        eventually(lambda: mill.count("queue_sleepers"))
        sent = worker.signal()
        assert worker.ended() == 0
        assert time.monotonic() - sent < allowed(1.5)
    assert mill.count("queue_sleepers") == 0


def test_b080_a_worker_that_waits_for_the_database_stops_at_once(mill: Mill) -> None:
    away = Mill("postgresql://nobody@127.0.0.1:1/none", mill.conn, mill.project_id)
    with WorkerProcess(away, *WINDOW) as worker:
        worker.saw("register_failed")
        sent = worker.signal()
        assert worker.ended() == 0
        assert time.monotonic() - sent < allowed(1.5)


def test_b080_a_claim_answer_that_comes_after_the_signal_is_given_back(mill: Mill) -> None:
    first = mill.new(job_type="noop")
    with WorkerProcess(mill, *WINDOW) as worker:
        eventually(lambda: mill.state(first) == "completed")
        with mill.another().conn.transaction():
            # The claim's read of `queues` waits for this lock, so the claim is in flight when the signal comes.
            blocker = mill.others[-1].conn
            blocker.execute("lock table tidemill.queues in access exclusive mode")
            eventually(lambda: _waits_for_queues(mill))
            blocker.execute(
                "insert into tidemill.jobs (id, project_id, queue_id, job_type, phase, run_at, created_at, updated_at)"
                " select gen_random_uuid(), project_id, id, 'noop', 'moving', now() - interval '1 s', now(), now() from tidemill.queues"
            )
            blocker.execute(
                "insert into tidemill.job_queue_entries (queue_id, priority, run_at, job_id)"
                " select queue_id, priority, run_at, id from tidemill.jobs where id <> %s",
                [first],
            )
            worker.signal()
            worker.saw("stopping")
        assert worker.ended() == 0
    late = mill.conn.execute("select id::text from tidemill.jobs where id <> %s", [first]).fetchall()
    assert [mill.state(row[0]) for row in late] == ["queued"]
    assert mill.view(late[0][0])["attempt_count"] == 0
    assert {x["status"] for x in mill.executions(late[0][0])} <= {"released"}


def test_b080_a_second_signal_exits_at_once_and_leaves_jobs_to_their_lease(mill: Mill, tmp_path: Path) -> None:
    job_id = mill.new(job_type="hold", payload={"trace": str(tmp_path / "t")})
    with WorkerProcess(mill, "--stop-window-secs", "60") as worker:
        eventually((tmp_path / "t").exists)
        worker.signal()
        worker.saw("stopping")
        sent = worker.signal(signal.SIGINT)
        assert worker.ended() == 128 + signal.SIGINT
        assert time.monotonic() - sent < allowed(1.0)
    assert mill.state(job_id) == "running"


@pytest.mark.parametrize("job_type", ["hold.async", "hold.process"])
def test_b080_no_kind_of_job_is_left_running(mill: Mill, tmp_path: Path, job_type: str) -> None:
    trace = tmp_path / "t"
    ids = [mill.new(job_type=job_type, payload={"trace": str(trace), "n": n}) for n in range(3)]
    with WorkerProcess(mill, "--stop-window-secs", "2") as worker:
        eventually(lambda: trace.exists() and len(trace.read_text().splitlines()) == 3)
        worker.signal()
        assert worker.ended() == 0
    assert [mill.state(job_id) for job_id in ids] == ["queued"] * 3
    lines = trace.read_text().splitlines()
    if job_type == "hold.async":
        assert sum(line.endswith("cancelled") for line in lines) == 3
    else:
        assert not [pid for line in lines if Path(f"/proc/{(pid := line.split()[1])}").exists()]


def test_b080_buffered_jobs_go_back_at_once(mill: Mill, tmp_path: Path) -> None:
    """Short jobs make a stock; then long ones take the places, and the signal finds some jobs claimed but not begun."""
    mill.enqueue_all([{"job_type": "noop"}] * 1_000)
    mill.enqueue_all([{"job_type": "hold", "payload": {"secs": 300, "trace": str(tmp_path / "t"), "n": n}} for n in range(200)])
    with WorkerProcess(mill, "--stop-window-secs", "2", "--concurrency", "2") as worker:
        eventually(lambda: (tmp_path / "t").exists())
        sent = worker.signal()
        assert worker.ended() == 0
        assert time.monotonic() - sent < allowed(2)
    assert mill.count("job_leases") == 0
    ends = mill.conn.execute("select status::text, count(*) from tidemill.job_executions group by 1").fetchall()
    assert dict(ends)["completed"] == 1_000
    assert len(mill.claim(500)) == 200
    assert mill.misplaced() == []


def _waits_for_queues(mill: Mill) -> bool:
    row = mill.conn.execute(
        "select count(*) from pg_locks l join pg_class c on c.oid = l.relation where c.relname = 'queues' and not l.granted"
    ).fetchone()
    return bool(row and row[0])
