"""What happens between the scheduler's passes: due schedules start on their second, and a cancel is heard at once."""

from __future__ import annotations

import random
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.clock import allowed
from harness.jobs import PAUSE
from harness.mill import Mill, until, waiting_on_locks
from harness.schedules import put
from harness.working import WorkerProcess, eventually, working
from tidemill import App
from tidemill.domain.jobs import Registration
from tidemill.domain.schedule import Overlap
from tidemill.engine.duties import duties
from tidemill.engine.operate import cancel
from tidemill.runner import Context
from tidemill.runner.log import Log
from tidemill.runner.options import WorkerOptions
from tidemill.runner.sources.postgres import PostgresSource
from tidemill.runner.worker import Worker

LATE = """
select extract(epoch from x.started_at - j.scheduled_for)::float
from tidemill.jobs j join tidemill.job_executions x on x.job_id = j.id where j.scheduled_for is not null order by 1
"""


def test_a_cancel_reaches_the_worker_at_once(mill: Mill) -> None:
    """Its beats are 5 s apart."""
    app, waits = App(), []

    @app.job("hold")
    def hold(ctx: Context, _: Any) -> None:
        while not ctx.cancelled:
            PAUSE.wait(0.002)
        ctx.raise_if_cancelled()

    with working(mill, app):
        for _ in range(5):
            job_id = mill.new(job_type="hold")
            eventually(lambda job_id=job_id: mill.state(job_id) == "running")
            cancel(mill.store, mill.project_id, job_id, roll=random.random)
            asked = time.monotonic()
            eventually(lambda job_id=job_id: mill.state(job_id) == "cancelled")
            waits.append(time.monotonic() - asked)
    assert statistics.median(waits) < min(allowed(0.2), 1.5)


def test_a_cancel_of_a_busy_worker_reaches_it_too(mill: Mill) -> None:
    """Nothing claims, so nothing but the beats' own connection could hear it."""
    app = App()

    @app.job("hold")
    def hold(ctx: Context, _: Any) -> None:
        while not ctx.cancelled:
            PAUSE.wait(0.002)
        ctx.raise_if_cancelled()

    with working(mill, app, concurrency=1):
        mine, other = mill.new(job_type="hold"), mill.new(job_type="hold")
        eventually(lambda: mill.state(mine) == "running")
        PAUSE.wait(0.3)
        began = time.monotonic()
        cancel(mill.store, mill.project_id, mine, roll=random.random)
        eventually(lambda: mill.state(mine) == "cancelled")
        assert time.monotonic() - began < min(allowed(0.5), 2.5)
        eventually(lambda: mill.state(other) == "running")
        cancel(mill.store, mill.project_id, other, roll=random.random)
        eventually(lambda: mill.state(other) == "cancelled")


def test_a_ticking_worker_starts_occurrences_that_must_look_at_their_predecessor_on_their_second(mill: Mill) -> None:
    app = App()
    app.job("report.daily")(lambda ctx, payload: None)
    source = PostgresSource(mill.dsn, mill.project_id)
    worker = Worker(app, source, WorkerOptions(name="ticking", concurrency=2, stop_window_secs=2.0), Log("error"), source.tick)
    thread = threading.Thread(target=worker.run)
    put(mill, "each-second", datetime.now(UTC).replace(microsecond=0), every_ms=1_000, overlap=Overlap.SKIP)
    thread.start()
    try:
        eventually(lambda: len(mill.conn.execute(LATE).fetchall()) >= 4)
    finally:
        worker.stop()
        thread.join(120)
    late = [row[0] for row in mill.conn.execute(LATE)]
    assert min(late) >= 0
    assert statistics.median(late) < min(allowed(0.2), 0.9), late


def test_duties_leave_alone_what_is_not_due_and_end_lost_leases(mill: Mill) -> None:
    now = datetime.now(UTC)
    put(mill, "later", now, cron="0 0 1 1 *", overlap=Overlap.SKIP)
    assert duties(mill.store, roll=mill.roll) == 0
    job_id = mill.new()
    mill.lapse(mill.claim_job(job_id).job_id)
    assert duties(mill.store, roll=mill.roll) == 1
    assert mill.state(job_id) == "scheduled"
    mill.conn.execute("update tidemill.scheduled_jobs set next_run_at = now() - interval '1 second'")
    assert duties(mill.store, roll=mill.roll, now=now + timedelta(seconds=1)) <= 1


def test_a_worker_told_to_tick_ends_lost_leases(mill: Mill) -> None:
    """It did not: the command made a second worker, without the duties, and ran that."""
    job_id = mill.new(job_type="noop")
    mill.lapse(mill.claim_job(job_id).job_id)
    with WorkerProcess(mill, "--tick"):
        eventually(lambda: mill.executions(job_id))
    assert mill.executions(job_id)[0]["status"] == "lease_expired"


def test_ticking_over_https_is_refused_in_one_line(mill: Mill) -> None:
    with WorkerProcess(
        mill, "--tick", "--source", "http", "--url", "http://127.0.0.1:9", environment={"TIDEMILL_API_KEY": "tm_local_x_y"}
    ) as process:
        assert process.ended() == 2
    assert "use --source postgres" in " ".join(process.words)


def test_worker_that_finds_another_claim_at_a_gated_queue_waits_in_line(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not come back empty and sleep until the next ring, which nobody would send."""
    monkeypatch.setattr("tidemill.engine.claim.TURN_MS", 60_000)  # a busy machine takes its time to look
    source = PostgresSource(mill.dsn, mill.project_id)
    source.register(Registration("w", ("default",)))
    mill.new(partition_key="p")
    with closing(source), ThreadPoolExecutor(1) as threads:
        with mill.conn.transaction():
            mill.conn.execute("select pg_advisory_xact_lock(tidemill.queue_lock(id)) from tidemill.queues")
            claimed = threads.submit(source.claim, 5)
            until(lambda: claimed.done() or waiting_on_locks(mill.conn) == 1)
            assert not claimed.done()
        assert len(claimed.result()) == 1
