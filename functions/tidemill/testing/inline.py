"""Inline mode: jobs run one after the other in the caller's thread, one attempt each, and whatever they do is kept to look at."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidemill.domain.errors import NotFound
from tidemill.domain.keys import compact_json
from tidemill.testing.context import InlineAsyncContext, InlineContext, InlineParent

JobObject = dict[str, Any]


class AnyApp(Protocol):
    """What inline mode needs of `tidemill.App`."""

    @property
    def jobs(self) -> Mapping[str, Any]:
        """Handlers by job type."""

    def execution(self, job_type: Any, /) -> Callable[[Any, Any], Any]:
        """The handler within its interceptors."""

    def job_object(self, job_type: str, payload: Any = None, /, **fields: Any) -> JobObject:
        """A job object with its type's defaults."""

    def intercepted(self, via: Callable[[JobObject], Any], /) -> Callable[[JobObject], Any]:
        """`via` within the enqueue interceptors."""


@dataclass(slots=True)
class Ran:
    """What one job did. `error`: what its handler raised, also Snooze, Cancelled and their like; then there is no result."""

    id: str
    job: JobObject
    result: Any = None
    error: BaseException | None = None
    enqueued: list[JobObject] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    progress: tuple[int, int | None, str | None] | None = None
    checkpoint: Any = None
    output: Any = None

    def raise_error(self) -> Ran:
        """Itself; raises what the handler raised, if anything."""
        if self.error is not None:
            raise self.error
        return self


def run_inline(
    app: AnyApp,
    jobs: Iterable[Mapping[str, Any]],
    *,
    attempt: int = 1,
    checkpoint: Any = None,
    is_cancelled: bool = False,
    depth: int = 1_000,
) -> list[Ran]:
    """One result per job that ran: those given, in order, then the children that they enqueued (at most `depth` in all).

    attempt, checkpoint, is_cancelled: what the handlers of the given jobs find in their context. Payloads and results take the
    way through JSON, as they do in production, so that a tuple comes out as a list and an object that is no JSON fails here too.
    `depends_on` by ref finds the jobs that ran before.
    Nothing is retried, waited for or timed out: delays, run_at, unique keys and limits have no effect. NotFound for a job type
    without a handler. RuntimeError when jobs go on enqueueing children beyond `depth`.
    """
    waiting: deque[tuple[JobObject, int, Any]] = deque((dict(job), attempt, checkpoint) for job in jobs)
    done: list[Ran] = []
    while waiting:
        if len(done) >= depth:
            raise RuntimeError(f"more than {depth:,} jobs ran: do they enqueue one another for ever? Raise depth if they are meant to")
        job, number, saved = waiting.popleft()
        ran = _run(app, job, f"inline-{len(done) + 1}", number, saved, _parents(job, done), is_cancelled=is_cancelled)
        done.append(ran)
        waiting.extend((child, 1, None) for child in ran.enqueued)
    return done


def _parents(job: JobObject, done: Iterable[Ran]) -> dict[str, InlineParent]:
    wanted = {parent.get("ref") for parent in job.get("depends_on") or () if isinstance(parent, Mapping)}
    return {
        ran.id: InlineParent(ran.id, "completed" if ran.error is None else "dead_letter", ran.result)
        for ran in done
        if ran.job.get("ref") in wanted - {None}
    }


def _run(
    app: AnyApp, job: JobObject, job_id: str, attempt: int, checkpoint: Any, parents: Mapping[str, InlineParent], *, is_cancelled: bool
) -> Ran:
    job_type = app.jobs.get(job["job_type"])
    if job_type is None:
        raise NotFound("handler for job type", job["job_type"])
    ran = Ran(job_id, job, checkpoint=checkpoint)
    kind = InlineAsyncContext if inspect.iscoroutinefunction(job_type.handler) else InlineContext
    ctx = kind(app, ran, attempt, parents, is_cancelled=is_cancelled)
    payload = through_json(job.get("payload", {}))
    try:
        answer = app.execution(job_type)(ctx, payload)
        ran.result = through_json(asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer)
    except Exception as error:  # noqa: BLE001 - it is what the test wants to see
        ran.error = error
    return ran


async def _awaited(answer: Any) -> Any:
    return await answer


def through_json(value: Any) -> Any:
    """`value` as it comes out of the queue. TypeError or ValueError if it is no JSON."""
    return json.loads(compact_json(value))
