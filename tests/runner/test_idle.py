"""An idle worker: cheap, small, and there at once when a job comes."""

from __future__ import annotations

import statistics
import time
from typing import Any

import psutil

from harness.clock import allowed
from harness.jobs import PAUSE
from harness.mill import Mill
from harness.working import WorkerProcess, eventually, working
from tidemill import App
from tidemill.runner import Context

IDLE_MB = 90


def picking_up(stamps: dict[Any, float]) -> App:
    app = App()

    @app.job("t")
    def stamp(ctx: Context, payload: Any) -> None:
        stamps[payload["n"]] = time.monotonic()

    return app


def test_a_sleeping_worker_is_woken_by_the_enqueue(mill: Mill) -> None:
    """Its polls are 0.2 to 1 s apart: a median far below that can only come from the doorbell."""
    stamps: dict[Any, float] = {}
    waits = []
    with working(mill, picking_up(stamps)):
        for n in range(25):
            eventually(lambda: mill.count("queue_sleepers") == 1)
            PAUSE.wait(0.02)
            mill.new(payload={"n": n})
            committed = time.monotonic()
            eventually(lambda n=n: n in stamps)
            waits.append(stamps[n] - committed)
    assert statistics.median(waits) < min(allowed(0.05), 0.15)


def test_a_scheduled_job_starts_when_it_is_due(mill: Mill) -> None:
    stamps: dict[Any, float] = {}
    with working(mill, picking_up(stamps)):
        for n in range(5):
            mill.new(payload={"n": n}, delay_ms=1_500 + 37 * n)
        eventually(lambda: len(stamps) == 5)
    late = mill.conn.execute("select extract(epoch from x.started_at - x.queued_at)::float from tidemill.job_executions x").fetchall()
    assert len(late) == 5
    assert statistics.median(row[0] for row in late) < min(allowed(0.1), 0.3)
    assert min(row[0] for row in late) >= 0


def test_a_busy_worker_is_not_rung_and_the_sleeping_one_is(mill: Mill) -> None:
    app = App()
    app.job("t")(lambda ctx, payload: None)

    @app.job("hold")
    def hold(ctx: Context, payload: Any) -> None:
        eventually(lambda: ctx.cancelled)

    mill.new(job_type="hold")
    with working(mill, app, concurrency=1, stop_window_secs=0.5) as busy:
        eventually(lambda: busy.board.running)
        eventually(lambda: mill.count("queue_sleepers") == 0)


def test_an_idle_worker_asks_a_few_times_a_second_at_most(mill: Mill) -> None:
    app = App()
    app.job("t")(lambda ctx, payload: None)
    with working(mill, app) as worker:
        eventually(lambda: mill.count("queue_sleepers"))
        claims: list[int] = []
        ask = worker.source.claim
        worker.source.claim = lambda limit: claims.append(limit) or ask(limit)
        PAUSE.wait(2.0)
    assert 1 <= len(claims) <= 12


def test_an_idle_worker_is_small(mill: Mill) -> None:
    with WorkerProcess(mill) as worker:
        worker.saw("started")
        eventually(lambda: mill.count("queue_sleepers"))
        rss_mb = psutil.Process(worker.pid).memory_info().rss / 1e6
        worker.signal()
        assert worker.ended() == 0
    assert rss_mb <= IDLE_MB
    print(f"idle worker: {rss_mb:.1f} MB")


def test_the_health_file_is_renewed_while_the_worker_is_well(mill: Mill, tmp_path: Any) -> None:
    health = tmp_path / "alive"
    app = App()
    app.job("t")(lambda ctx, payload: None)
    with working(mill, app, health_file=health):
        eventually(health.exists)
        first = health.stat().st_mtime_ns
        eventually(lambda: health.stat().st_mtime_ns > first)
