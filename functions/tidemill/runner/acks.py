"""How an attempt ended, as the ack that says so. Reports are made storable here, so that none can strand its job."""

from __future__ import annotations

import hashlib
import traceback
from typing import Any, Final

from tidemill.domain import limits
from tidemill.domain.jobs import Ack, Failure
from tidemill.domain.keys import compact_json
from tidemill.domain.text import cleaned, cleaned_json, storable
from tidemill.domain.transitions import Event
from tidemill.runner.outcomes import Cancelled, NotRetryable, Outcome, RetryLater, Snooze, Throttled
from tidemill.runner.task import Task

STACK_FRAMES: Final = 40


def _digest(*parts: object) -> int:
    raw = hashlib.blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(raw, "big", signed=True)


COMPLETED: Final = _digest(Event.COMPLETE.value, None)
"""The digest of a completion without a result."""


def completed(task: Task, value: Any) -> Ack:
    """Completes with `value` as its result. One that is no JSON, or too large, fails the job for good: a retry would say it again."""
    job = task.job
    if value is None:
        return Ack(job.job_id, job.lease_token, Event.COMPLETE, COMPLETED)
    try:
        result = result_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        return failed(task, "ResultInvalid", f"the handler's result is no JSON value: {error}", retryable=False)
    size = len(result.encode())
    if size > limits.RESULT_BYTES:
        words = (
            f"the handler's result has {size:,} bytes of JSON, more than {limits.RESULT_BYTES:,}: store it elsewhere and return its place"
        )
        return failed(task, "ResultTooLarge", words, retryable=False)
    return Ack(job.job_id, job.lease_token, Event.COMPLETE, _digest(Event.COMPLETE.value, result), result=result)


def result_json(value: Any) -> str:
    """`value` as JSON text that the database can store: NUL and lone surrogates become U+FFFD."""
    text = compact_json(value)
    if "\\u0000" in text or not storable(text):
        text = compact_json(cleaned_json(value))
    return text


def raised(task: Task, error: BaseException) -> Ack:
    """The ack for what the handler raised."""
    match error:
        case Snooze():
            return simple(task, Event.SNOOZE, delay_ms=min(max(0, int(error.delay_ms)), limits.DELAY_MS[1]))
        case Cancelled():
            return simple(task, Event.ACK_CANCELLED)
        case NotRetryable():
            return failed(task, "NotRetryable", str(error), retryable=False)
        case Throttled():
            return failed(task, "Throttled", str(error), throttle_ms=min(max(0, int(error.delay_ms)), limits.DELAY_MS[1]))
        case RetryLater():
            wait = min(max(0, int(error.delay_ms)), limits.DELAY_MS[1])
            return failed(task, "RetryLater", str(error), retry_delay_ms=wait)
    known = task.type
    retryable = not (known is not None and known.not_retryable and isinstance(error, known.not_retryable))
    return failed(task, error_class(error), _message(error), stack=_stack(error), retryable=retryable)


def failed(
    task: Task,
    error: str,
    message: str,
    *,
    stack: str | None = None,
    retryable: bool = True,
    retry_delay_ms: int | None = None,
    throttle_ms: int | None = None,
    exit_code: int | None = None,
    event: Event = Event.FAIL,
) -> Ack:
    """A failed (or crashed) attempt; texts are cleaned and cut."""
    failure = Failure(
        cleaned(error)[: limits.ERROR_CLASS_CHARS],
        limits.clip(cleaned(message), limits.ERROR_BYTES),
        None if stack is None else limits.clip(cleaned(stack), limits.ERROR_BYTES),
    )
    return Ack(
        task.job.job_id,
        task.job.lease_token,
        event,
        _digest(event.value, failure, retryable, retry_delay_ms, exit_code, *([] if throttle_ms is None else [throttle_ms])),
        failure=failure,
        retryable=retryable,
        retry_delay_ms=retry_delay_ms,
        exit_code=exit_code,
        throttle_ms=throttle_ms,
    )


def simple(task: Task, event: Event, *, delay_ms: int = 0) -> Ack:
    """Snoozed, released or cancelled."""
    return Ack(task.job.job_id, task.job.lease_token, event, _digest(event.value, delay_ms), delay_ms=delay_ms)


def error_class(error: BaseException) -> str:
    """The exception's class as people search for it: with its module unless built in."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception whose own text raises must still fail its job
        return "(its text could not be made)"


def _stack(error: BaseException) -> str | None:
    if isinstance(error, Outcome):
        return None
    try:
        lines = traceback.format_exception(error, limit=-STACK_FRAMES)
    except Exception:  # noqa: BLE001 - as above
        return None
    text = "".join(lines)
    return text[-limits.ERROR_BYTES :]
