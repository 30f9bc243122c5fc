"""B004 and its kin: heartbeats keep what runs and what waits, a lost lease stops its handler, and turns are taken (B049)."""

from __future__ import annotations

import threading
from typing import Any

from harness.jobs import PAUSE
from harness.mill import Mill
from harness.working import eventually, working
from tidemill import App
from tidemill.engine import worker as workers
from tidemill.runner import Context


def expiry(mill: Mill, job_id: str) -> Any:
    return mill.view(job_id)["lease_expires_at"]


def test_b004_a_job_longer_than_its_lease_runs_once(mill: Mill) -> None:
    app, gate, runs = App(), threading.Event(), []

    @app.job("t")
    def long(ctx: Context, payload: Any) -> str:
        runs.append(ctx.attempt)
        assert gate.wait(120)
        return "done"

    job_id = mill.new()
    ends: set[str] = set()

    def outlives() -> bool:
        assert mill.reap().expired == 0
        assert mill.claim(5) == []  # another worker polls all the time
        ends.add(expiry(mill, job_id))
        return len(ends) >= 6  # each beat moves the end by a third of the lease: twice the lease has gone by

    with working(mill, app, lease_ms=1_000):
        eventually(lambda: runs)
        eventually(outlives)
        gate.set()
        eventually(lambda: mill.state(job_id) == "completed")
    assert runs == [1]
    assert [x["status"] for x in mill.executions(job_id)] == ["completed"]


def test_b004_a_handler_that_keeps_the_interpreter_busy_does_not_lose_its_lease(mill: Mill) -> None:
    app, gate, ends = App(), threading.Event(), set()

    @app.job("t")
    def spin(ctx: Context, payload: Any) -> int:
        n = 0
        while not gate.is_set():
            n += 1
        return n

    ids = [mill.new(), mill.new()]
    with working(mill, app, lease_ms=1_000):

        def outlives() -> bool:
            assert mill.reap().expired == 0
            ends.add(expiry(mill, ids[0]))
            return len(ends) >= 6

        eventually(lambda: all(mill.state(job_id) == "running" for job_id in ids))
        eventually(outlives)
        gate.set()
        eventually(lambda: all(mill.state(job_id) == "completed" for job_id in ids))


def test_a_lost_lease_stops_the_handler_and_drops_its_result(mill: Mill) -> None:
    app, begun, told = App(), threading.Event(), threading.Event()

    @app.job("t")
    def work(ctx: Context, payload: Any) -> str:
        begun.set()
        eventually(lambda: ctx.cancelled)
        told.set()
        return "nobody wants it"

    job_id = mill.new(retry_policy={"strategy": "fixed", "base_delay_ms": 3_600_000})
    with working(mill, app, lease_ms=1_000) as worker:
        assert begun.wait(120)
        mill.lapse(job_id)
        assert mill.reap().expired == 1
        assert told.wait(120)
        eventually(lambda: worker.slots.free == 4)
        assert not worker.board.held
    assert [x["status"] for x in mill.executions(job_id)] == ["lease_expired"]
    assert mill.state(job_id) == "scheduled"


def test_jobs_that_wait_for_a_place_keep_their_leases(mill: Mill) -> None:
    """A stock that nobody gives back for a while (here its return is switched off) is kept alive like what runs."""
    app, gate = App(), threading.Event()
    app.job("noop")(lambda ctx, payload: None)

    @app.job("t")
    def block(ctx: Context, payload: Any) -> None:
        assert gate.wait(120)

    with working(mill, app, lease_ms=1_000, concurrency=1) as worker:
        worker.watch._return_overdue = lambda: False
        mill.enqueue_all([{"job_type": "noop"}] * 500)
        eventually(lambda: mill.count("job_executions") == 500)
        mill.enqueue_all([{}] * 20)
        eventually(lambda: len(worker.board.ready) > 5)
        ends: set[str] = set()

        def outlive() -> bool:
            assert mill.reap().expired == 0
            waiting = worker.board.ready[-1].job.job_id
            ends.add(expiry(mill, waiting))
            return len(ends) >= 5

        eventually(outlive)
        gate.set()
        eventually(lambda: mill.count("job_executions") == 520)
    assert mill.misplaced() == []


def test_a_stock_that_stands_still_is_given_back_for_others(mill: Mill) -> None:
    app, gate = App(), threading.Event()
    app.job("noop")(lambda ctx, payload: None)

    @app.job("t")
    def block(ctx: Context, payload: Any) -> None:
        assert gate.wait(120)

    with working(mill, app, concurrency=1) as worker:
        mill.enqueue_all([{"job_type": "noop"}] * 500)
        eventually(lambda: mill.count("job_executions") == 500)
        mill.enqueue_all([{}] * 20)
        eventually(lambda: worker.lines.named("stock_released"))
        taken = eventually(lambda: mill.claim(50))
        assert len(taken) >= 15
        assert {job.attempt for job in taken} == {1}
        gate.set()


def test_commands_quiet_resume_and_terminate_are_obeyed(mill: Mill) -> None:
    app = App()
    app.job("t")(lambda ctx, payload: None)
    with working(mill, app, lease_ms=1_000) as worker:
        assert worker.worker_id is not None
        workers.command(mill.store, mill.project_id, worker.worker_id, "quiet")
        eventually(lambda: worker.claimer.quiet)
        eventually(lambda: _status(mill) == "quiet")
        job_id = mill.new()
        PAUSE.wait(0.5)  # longer than it would take an awake worker
        assert mill.state(job_id) == "queued"
        workers.command(mill.store, mill.project_id, worker.worker_id, "resume")
        eventually(lambda: mill.state(job_id) == "completed")
        workers.command(mill.store, mill.project_id, worker.worker_id, "terminate")
        eventually(lambda: worker.lines.named("stopped"))
    assert mill.count("workers") == 0


def test_b049_healthy_jobs_get_their_turn_before_hanging_ones_start_their_third_attempt(mill: Mill) -> None:
    app = App()
    healthy_done = threading.Event()
    left = [100]
    third: list[bool] = []

    @app.job("hang")
    def hang(ctx: Context, payload: Any) -> None:
        if ctx.attempt >= 3:
            third.append(healthy_done.is_set())
            return
        eventually(lambda: ctx.cancelled or third)

    @app.job("healthy")
    def healthy(ctx: Context, payload: Any) -> None:
        left[0] -= 1
        if not left[0]:
            healthy_done.set()

    policy = {"strategy": "fixed", "base_delay_ms": 300, "jitter": False}
    mill.enqueue_all([{"job_type": "hang", "timeout_ms": 200, "retry_policy": policy}] * 8)
    mill.enqueue_all([{"job_type": "healthy"}] * 100)
    with working(mill, app, concurrency=4):
        eventually(lambda: len(third) == 8)
    assert all(third)
    assert left == [0]


def _status(mill: Mill) -> str:
    row = mill.conn.execute("select status::text from tidemill.workers").fetchone()
    assert row is not None
    return str(row[0])
