"""Threads, coroutines and processes: time limits, cancels, crashes, and places that are given back exactly once."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from harness import jobs
from harness.mill import Mill
from harness.working import eventually, working
from tidemill import App
from tidemill.engine.operate import cancel
from tidemill.runner import AsyncContext, Context

NEXT_HOUR = {"strategy": "fixed", "base_delay_ms": 3_600_000, "jitter": False}
PROCESSES = {"app_path": "harness.jobs:app"}


@pytest.fixture(autouse=True)
def children_find_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).resolve().parents[1]
    monkeypatch.syspath_prepend(str(root))


@pytest.mark.parametrize("job_type", ["hold", "hold.async", "hold.process"])
def test_an_attempt_over_its_limit_fails_and_is_retried(mill: Mill, job_type: str) -> None:
    job_id = mill.new(job_type=job_type, payload={"heeds": True}, timeout_ms=300, retry_policy=NEXT_HOUR)
    with working(mill, jobs.app, **PROCESSES) as worker:
        eventually(lambda: mill.state(job_id) == "scheduled")
        eventually(lambda: worker.slots.free == 4)
    (attempt,) = mill.executions(job_id)
    assert (attempt["status"], attempt["error_class"]) == ("failed", "TimedOut")
    assert attempt["error_message"] == "the attempt ran longer than its limit of 300 ms"
    assert 300 <= attempt["duration_ms"] < 3_000


def test_the_late_result_of_a_thread_is_dropped_and_its_place_is_taken_until_it_ends(mill: Mill) -> None:
    app, gate, ended = App(), threading.Event(), threading.Event()

    @app.job("t", timeout_ms=100)
    def deaf(ctx: Context, payload: Any) -> str:
        assert gate.wait(120)
        ended.set()
        return "too late"

    job_id = mill.new(retry_policy=NEXT_HOUR)
    with working(mill, app, concurrency=1) as worker:
        eventually(lambda: mill.state(job_id) == "scheduled")
        assert worker.slots.free == 0
        gate.set()
        eventually(lambda: worker.slots.free == 1)
        assert ended.is_set()
        assert worker.lines.named("late_result_dropped")
    assert [x["status"] for x in mill.executions(job_id)] == ["failed"]
    assert mill.state(job_id) == "scheduled"


@pytest.mark.parametrize("job_type", ["hold", "hold.async", "hold.process"])
def test_a_cancel_reaches_a_running_job(mill: Mill, tmp_path: Path, job_type: str) -> None:
    job_id = mill.new(job_type=job_type, payload={"heeds": job_type == "hold", "trace": str(tmp_path / "t")})
    with working(mill, jobs.app, lease_ms=1_000, **PROCESSES) as worker:
        eventually((tmp_path / "t").exists)
        cancel(mill.store, mill.project_id, job_id, roll=mill.roll)
        eventually(lambda: mill.state(job_id) == "cancelled")
        eventually(lambda: worker.slots.free == 4)
    assert [x["status"] for x in mill.executions(job_id)] == ["cancelled"]


def test_a_completion_wins_over_a_cancel_that_was_asked(mill: Mill) -> None:
    app, begun, gate = App(), threading.Event(), threading.Event()

    @app.job("t")
    def finish(ctx: Context, payload: Any) -> bool:
        begun.set()
        eventually(lambda: ctx.cancelled)
        gate.set()
        return ctx.cancelled

    job_id = mill.new()
    with working(mill, app, lease_ms=1_000):
        assert begun.wait(120)
        cancel(mill.store, mill.project_id, job_id, roll=mill.roll)
        assert gate.wait(120)
        eventually(lambda: mill.state(job_id) == "completed")
    assert mill.executions(job_id)[0]["result"] is True


@pytest.mark.parametrize(
    ("payload", "code"),
    [({"do": "exit", "code": 3}, 3), ({"do": "exit", "code": 0}, 0), ({"do": "leave", "code": 4}, 4), ({"do": "die"}, 137)],
    ids=["os._exit", "exit 0", "sys.exit", "killed"],
)
def test_a_process_that_dies_is_a_crash_with_its_exit_code(mill: Mill, payload: dict[str, Any], code: int) -> None:
    job_id = mill.new(job_type="process", payload=payload, retry_policy=NEXT_HOUR)
    after = mill.new(job_type="process")
    with working(mill, jobs.app, concurrency=1, **PROCESSES):
        eventually(lambda: mill.state(after) == "completed")
    (attempt,) = mill.executions(job_id)
    assert (attempt["status"], attempt["exit_code"], attempt["error_class"]) == ("crashed", code, "ProcessDied")
    assert mill.view(job_id)["crash_count"] == 1


def test_a_process_out_of_memory_harms_only_its_own_job(mill: Mill) -> None:
    job_id = mill.new(job_type="process", payload={"do": "eat"}, max_attempts=1)
    with working(mill, jobs.app, **PROCESSES):
        eventually(lambda: mill.state(job_id) == "dead_letter")
    assert mill.view(job_id)["error_class"] in ("MemoryError", "ProcessDied")


def test_a_process_is_kept_for_the_next_job_and_is_another_than_the_worker(mill: Mill) -> None:
    ids = [mill.new(job_type="process") for _ in range(5)]
    with working(mill, jobs.app, concurrency=1, **PROCESSES):
        eventually(lambda: all(mill.state(job_id) == "completed" for job_id in ids))
    pids = {mill.executions(job_id)[0]["result"] for job_id in ids}
    assert len(pids) == 1
    assert pids != {os.getpid()}


def test_reports_errors_and_children_pass_through_the_process(mill: Mill) -> None:
    job_id = mill.new(job_type="process", payload={"do": "report"})
    bad = mill.new(job_type="process", payload={"do": "raise"})
    with working(mill, jobs.app, **PROCESSES):
        eventually(lambda: mill.state(job_id) == "completed" and mill.state(bad) == "dead_letter")
    child, attempt, checkpoint = mill.executions(job_id)[0]["result"]
    stored = mill.stored(job_id)
    assert (attempt, checkpoint) == (1, None)
    assert stored["jobs"][0]["progress_message"] == "half"
    assert (stored["jobs"][0]["checkpoint"], stored["jobs"][0]["output"]) == ({"at": 1}, [1])
    assert stored["logs"][0]["message"] == 'said {"n":1}'
    assert mill.view(child)["job_type"] == "noop"
    dead = mill.view(bad)
    assert (dead["error_class"], dead["final_reason"]) == ("KeyError", "not_retryable")


def test_thread_jobs_can_be_told_to_run_as_processes(mill: Mill) -> None:
    job_id = mill.new(job_type="once")
    with working(mill, jobs.app, isolation="process", **PROCESSES):
        eventually(lambda: mill.state(job_id) == "completed")
    assert mill.executions(job_id)[0]["result"] != os.getpid()


def test_places_are_shared_by_all_kinds_and_never_exceeded(mill: Mill) -> None:
    app, lock = App(), threading.Lock()
    running, most, done = [0], [0], [0]

    def enter() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])

    def leave() -> None:
        with lock:
            running[0] -= 1
            done[0] += 1

    @app.job("t")
    def sync(ctx: Context, payload: Any) -> None:
        enter()
        jobs.PAUSE.wait(0.002)
        leave()

    @app.job("u")
    async def coroutine(ctx: AsyncContext, payload: Any) -> None:
        enter()
        await asyncio.sleep(0.002)
        leave()

    mill.enqueue_all([{"job_type": "t" if n % 3 else "u"} for n in range(600)])
    with working(mill, app, concurrency=3) as worker:
        eventually(lambda: done[0] == 600)
        eventually(lambda: worker.slots.free == 3)
    assert most[0] == 3
    assert mill.count("job_leases") == 0
    assert mill.misplaced() == []


def test_coroutines_run_beside_each_other(mill: Mill) -> None:
    app, here = App(), [0]
    everybody = asyncio.Event()

    @app.job("t")
    async def meet(ctx: AsyncContext, payload: Any) -> None:
        here[0] += 1
        if here[0] == 50:
            everybody.set()
        await everybody.wait()

    ids = [e.job_id for e in mill.enqueue_all([{}] * 50)]
    with working(mill, app, concurrency=50):
        eventually(lambda: all(mill.state(str(job_id)) == "completed" for job_id in ids))
        names = {thread.name for thread in threading.enumerate()}
    assert "tidemill-async" in names


def test_a_coroutines_reports_are_written_before_its_end_awaited_or_not(mill: Mill) -> None:
    app = App()

    @app.job("t")
    async def report(ctx: AsyncContext, payload: Any) -> Any:
        ctx.progress(1, 2)
        ctx.save_checkpoint({"a": 1})
        ctx.log.info("hello")
        return await ctx.enqueue("kid", {})

    app.job("kid")(lambda ctx, payload: None)
    job_id = mill.new()
    with working(mill, app):
        eventually(lambda: mill.state(job_id) == "completed")
    stored = mill.stored(job_id)
    assert stored["jobs"][0]["progress_current"] == 1
    assert stored["logs"][0]["message"] == "hello"
    assert mill.view(stored["executions"][0]["result"])["job_type"] == "kid"


def test_a_coroutine_that_ignores_its_cancellation_fails_at_its_limit_all_the_same(mill: Mill) -> None:
    app, stubborn, gate = App(), threading.Event(), threading.Event()

    @app.job("t", timeout_ms=100)
    async def ignore(ctx: AsyncContext, payload: Any) -> str:
        while not gate.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                stubborn.set()
        return "late"

    job_id = mill.new(retry_policy=NEXT_HOUR)
    with working(mill, app, concurrency=1) as worker:
        eventually(lambda: mill.state(job_id) == "scheduled")
        assert stubborn.wait(120)
        assert worker.slots.free == 0
        gate.set()
        eventually(lambda: worker.slots.free == 1)
    assert [x["error_class"] for x in mill.executions(job_id)] == ["TimedOut"]


def test_the_limit_registered_holds_for_jobs_enqueued_without_one(mill: Mill) -> None:
    app = App()

    @app.job("t", timeout_ms=100)
    def wait(ctx: Context, payload: Any) -> None:
        began = time.monotonic()
        while not ctx.cancelled and time.monotonic() - began < 20:
            jobs.PAUSE.wait(0.01)

    job_id = mill.new(retry_policy=NEXT_HOUR)
    with working(mill, app):
        eventually(lambda: mill.state(job_id) == "scheduled")
    assert mill.view(job_id)["error_class"] == "TimedOut"
