"""What a handler does and what becomes of its job: real worker, real database."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from harness.mill import Mill
from harness.working import eventually, working
from tidemill import App
from tidemill.domain.admission import RateClass
from tidemill.domain.errors import LeaseLost
from tidemill.engine.limits import put_rate_class
from tidemill.runner import Cancelled, Context, NotRetryable, RetryLater, Snooze, Throttled


def run_one(mill: Mill, handler: Any, *, until: str, spec: dict[str, Any] | None = None, **registration: Any) -> dict[str, Any]:
    """Registers `handler` as job type t, runs one job until it is in that state, and returns its row of job_states."""
    app = App()
    app.job("t", **registration)(handler)
    job_id = mill.new(**(spec or {}))
    with working(mill, app):
        eventually(lambda: mill.state(job_id) == until)
    assert mill.misplaced() == []
    return {**mill.view(job_id), "executions": mill.executions(job_id), "logs": mill.stored(job_id)["logs"]}


@pytest.mark.parametrize("value", [None, {"a": [1, 2.5, "ü"]}, 0, "", False, [], 10**30, 1.0, 1e-9])
def test_a_returned_value_is_the_result(mill: Mill, value: Any) -> None:
    job = run_one(mill, lambda ctx, payload: value, until="completed")
    assert [x["result"] for x in job["executions"]] == [value]


def test_the_payload_comes_as_it_was_sent(mill: Mill) -> None:
    seen: list[Any] = []
    payload = {"deep": [{"n": 10**25, "f": 1.0, "s": 'q"\\\n'}], "none": None}
    run_one(mill, lambda ctx, payload: seen.append(payload), until="completed", spec={"payload": payload})
    assert seen == [payload]
    assert isinstance(seen[0]["deep"][0]["f"], float)


def test_text_that_cannot_be_stored_is_replaced_rather_than_stranding_the_job(mill: Mill) -> None:
    job = run_one(mill, lambda ctx, payload: {"a\x00": "b\x00\ud800"}, until="completed")
    assert job["executions"][0]["result"] == {"a\ufffd": "b\ufffd\ufffd"}


@pytest.mark.parametrize(
    ("value", "error_class"),
    [(object(), "ResultInvalid"), (float("nan"), "ResultInvalid"), ({1, 2}, "ResultInvalid"), ("x" * 300_000, "ResultTooLarge")],
    ids=["object", "nan", "set", "large"],
)
def test_a_result_that_cannot_be_stored_ends_the_job_with_that_reason(mill: Mill, value: Any, error_class: str) -> None:
    job = run_one(mill, lambda ctx, payload: value, until="dead_letter")
    assert job["error_class"] == error_class
    assert job["attempt_count"] == 1


def test_an_exception_is_retried_and_kept_with_its_stack(mill: Mill) -> None:
    def fail(ctx: Context, payload: Any) -> None:
        raise ValueError("not \x00 today")

    job = run_one(mill, fail, until="scheduled", spec={"retry_policy": {"strategy": "fixed", "base_delay_ms": 60_000}})
    assert (job["error_class"], job["error_message"], job["attempt_count"]) == ("ValueError", "not \ufffd today", 1)
    assert 'raise ValueError("not \\x00 today")' in job["executions"][0]["error_stack"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RecursionError("deep"), MemoryError(), StopIteration(1)])
def test_nothing_a_handler_raises_ends_the_worker(mill: Mill, error: BaseException) -> None:
    def fail(ctx: Context, payload: Any) -> None:
        raise error

    job = run_one(mill, fail, until="dead_letter", spec={"max_attempts": 1})
    assert job["error_class"] == type(error).__name__


def test_an_exception_whose_text_cannot_be_made_still_fails_its_job(mill: Mill) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fail(ctx: Context, payload: Any) -> None:
        raise Mute

    job = run_one(mill, fail, until="dead_letter", spec={"max_attempts": 1})
    assert job["error_message"] == "(its text could not be made)"


def test_a_class_marked_not_retryable_is_dead_after_one_attempt(mill: Mill) -> None:
    def fail(ctx: Context, payload: Any) -> None:
        raise UnicodeError("a ValueError too")

    job = run_one(mill, fail, until="dead_letter", not_retryable=(ValueError,))
    assert (job["final_reason"], job["attempt_count"]) == ("not_retryable", 1)


def test_not_retryable_raised_is_dead_with_that_reason(mill: Mill) -> None:
    def fail(ctx: Context, payload: Any) -> None:
        raise NotRetryable("no such user")

    job = run_one(mill, fail, until="dead_letter")
    assert (job["error_class"], job["error_message"]) == ("NotRetryable", "no such user")
    assert job["executions"][0]["error_stack"] is None


def test_snooze_gives_the_attempt_back(mill: Mill) -> None:
    def snooze(ctx: Context, payload: Any) -> None:
        raise Snooze(3_600_000)

    job = run_one(mill, snooze, until="scheduled", spec={"max_attempts": 1})
    assert (job["attempt_count"], job["executions"][0]["status"]) == (0, "snoozed")


def test_retry_later_sets_the_wait(mill: Mill) -> None:
    def later(ctx: Context, payload: Any) -> Any:
        if ctx.attempt == 1:
            raise RetryLater(0)
        return ctx.attempt

    job = run_one(mill, later, until="completed")
    assert [(x["attempt_number"], x["status"]) for x in job["executions"]] == [(1, "failed"), (2, "completed")]


def test_throttled_closes_the_rate_class_and_gives_the_attempt_back(mill: Mill) -> None:
    def ask(ctx: Context, payload: Any) -> None:
        raise Throttled(3_600_000, "429 from the mail service")

    put_rate_class(mill.store, mill.project_id, RateClass("mail", 100, 1_000, 100))
    job = run_one(mill, ask, until="scheduled", spec={"max_attempts": 1, "rate_class": "mail"})
    assert (job["attempt_count"], job["executions"][0]["status"], job["error_message"]) == (0, "snoozed", "429 from the mail service")
    assert mill.store.rate_classes(mill.project_id, name="mail")[0]["closed_until"] is not None


def test_cancelled_raised_ends_as_cancelled(mill: Mill) -> None:
    def stop(ctx: Context, payload: Any) -> None:
        raise Cancelled

    assert run_one(mill, stop, until="cancelled")["executions"][0]["status"] == "cancelled"


def test_an_unknown_job_type_is_dead_at_once_with_that_reason(mill: Mill) -> None:
    job_id = mill.new(job_type="never.heard")
    with working(mill, App()) as worker:
        eventually(lambda: mill.state(job_id) == "dead_letter")
    job = mill.view(job_id)
    assert (job["error_class"], job["attempt_count"]) == ("UnknownJobType", 1)
    assert "'never.heard'" in job["error_message"]
    assert [line["job_type"] for line in worker.lines.named("unknown_job_type")] == ["never.heard"]


def test_the_context_tells_what_is_known_of_the_attempt(mill: Mill) -> None:
    seen: dict[str, Any] = {}

    def look(ctx: Context, payload: Any) -> None:
        seen.update(id=ctx.id, job_type=ctx.job_type, queue=ctx.queue, attempt=ctx.attempt, max_attempts=ctx.max_attempts, fence=ctx.fence)
        seen.update(headers=ctx.headers, cancelled=ctx.cancelled, checkpoint=ctx.checkpoint, version=ctx.schema_version)
        seen["deadline"] = ctx.deadline

    job = run_one(
        mill, look, until="completed",
        spec={"max_attempts": 7, "headers": {"a": "b"}, "traceparent": "00-x", "schema_version": 4, "timeout_ms": 60_000},
    )  # fmt: skip
    deadline = seen.pop("deadline")
    assert seen == {
        "id": job["id"], "job_type": "t", "queue": "default", "attempt": 1, "max_attempts": 7, "fence": 1,
        "headers": {"a": "b", "traceparent": "00-x"}, "cancelled": False, "checkpoint": None, "version": 4,
    }  # fmt: skip
    assert deadline is not None
    assert deadline.tzinfo is not None


def test_a_checkpoint_is_what_the_next_attempt_starts_from(mill: Mill) -> None:
    def count(ctx: Context, payload: Any) -> Any:
        at = ctx.checkpoint or 0
        ctx.save_checkpoint(at + 1, cursor=f"row {at}")
        if at < 2:
            raise RetryLater(0)
        return at

    assert run_one(mill, count, until="completed")["executions"][-1]["result"] == 2


def test_reports_are_stored_with_the_job(mill: Mill) -> None:
    def report(ctx: Context, payload: Any) -> None:
        ctx.progress(3, 10, "a\x00b")
        ctx.output({"part": 1})
        ctx.log.info("first", n=1)
        ctx.log.error("second")

    job = run_one(mill, report, until="completed")
    assert (job["progress_current"], job["progress_total"], job["progress_message"]) == (3, 10, "a\ufffdb")
    assert [(line["level"], line["message"]) for line in job["logs"]] == [("info", 'first {"n":1}'), ("error", "second")]


def test_log_lines_of_a_failed_attempt_are_kept(mill: Mill) -> None:
    def fail(ctx: Context, payload: Any) -> None:
        ctx.log.warning("before the end")
        raise ValueError

    assert [line["message"] for line in run_one(mill, fail, until="dead_letter", spec={"max_attempts": 1})["logs"]] == ["before the end"]


def test_a_child_carries_the_apps_defaults_interceptors_and_trace(mill: Mill) -> None:
    app, made = App(), []
    mill.queue("slow")
    app.intercept_enqueue(lambda job, proceed: proceed({**job, "tags": ["seen"]}))
    app.job("kid", queue="slow", max_attempts=2)(lambda ctx, payload: None)

    @app.job("t")
    def spawn(ctx: Context, payload: Any) -> None:
        made.append(ctx.enqueue("kid", {"n": 1}, priority=3))

    job_id = mill.new(traceparent="00-abc")
    with working(mill, app):
        eventually(lambda: mill.state(job_id) == "completed")
    child = mill.view(made[0])
    assert (child["queue"], child["priority"], child["tags"], child["max_attempts"], child["traceparent"]) == (
        "slow",
        3,
        ["seen"],
        2,
        "00-abc",
    )


def test_a_report_after_the_lease_is_lost_writes_nothing_and_says_so(mill: Mill) -> None:
    held, lost, errors = threading.Event(), threading.Event(), []

    def late(ctx: Context, payload: Any) -> str:
        held.set()
        assert lost.wait(120)
        for report in (lambda: ctx.progress(1), lambda: ctx.enqueue("t", {"child": True})):
            try:
                report()
            except LeaseLost as error:
                errors.append(error.job_id)
        return "too late"

    app = App()
    app.job("t")(late)
    job_id = mill.new(retry_policy={"strategy": "fixed", "base_delay_ms": 60_000})
    with working(mill, app):
        assert held.wait(120)
        mill.lapse(job_id)
        assert mill.reap().expired == 1
        lost.set()
    assert errors == [job_id, job_id]
    assert mill.state(job_id) == "scheduled"
    assert mill.count("jobs") == 1
    assert mill.view(job_id)["progress_current"] is None


def test_execute_interceptors_wrap_handlers_of_both_kinds(mill: Mill) -> None:
    app, order = App(), []

    @app.intercept_execute
    def outer(ctx: Any, payload: Any, proceed: Any) -> Any:
        order.append(("outer", ctx.job_type))
        return proceed(ctx, {**payload, "seen": True})

    @app.intercept_execute
    def inner(ctx: Any, payload: Any, proceed: Any) -> Any:
        order.append(("inner", ctx.job_type))
        return proceed(ctx, payload)

    @app.job("t")
    def sync(ctx: Any, payload: Any) -> Any:
        return payload

    @app.job("u")
    async def coroutine(ctx: Any, payload: Any) -> Any:
        return payload

    ids = [mill.new(), mill.new(job_type="u")]
    with working(mill, app):
        eventually(lambda: all(mill.state(job_id) == "completed" for job_id in ids))
    assert [mill.executions(job_id)[0]["result"] for job_id in ids] == [{"seen": True}] * 2
    assert sorted(order) == [("inner", "t"), ("inner", "u"), ("outer", "t"), ("outer", "u")]
