"""The registry: which handler runs which job type, with which defaults, and what is wrapped around enqueue and execute."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar

from tidemill.domain import limits
from tidemill.domain.errors import OutOfRange, TidemillError
from tidemill.observe import traces

Isolation = Literal["thread", "async", "process"]
ISOLATIONS: tuple[Isolation, ...] = ("thread", "async", "process")
JobObject = dict[str, Any]
"""A job as `POST /v1/jobs` takes it."""

P = ParamSpec("P")
R = TypeVar("R")
Execute = Callable[[Any, Any], Any]
ExecuteInterceptor = Callable[[Any, Any, Execute], Any]
EnqueueInterceptor = Callable[[JobObject, Callable[[JobObject], Any]], Any]


class AppInvalid(TidemillError):
    """A registration that cannot stand: a name taken twice, or a value that no job can have."""

    code = "app_invalid"


@dataclass(frozen=True, slots=True)
class JobType:
    """One registered handler. `defaults` are fields of its job objects; `not_retryable` errors go to the dead letters at once."""

    name: str
    handler: Callable[..., Any]
    isolation: Isolation
    timeout_ms: int | None
    not_retryable: tuple[type[BaseException], ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_coroutine(self) -> bool:
        """True for an `async def`."""
        return inspect.iscoroutinefunction(self.handler)


@dataclass(frozen=True, slots=True)
class Declared:
    """One declared schedule. `job_type` None: that of `handler`. `rules`: timing and rules as in API.md §5; `fields`: of its jobs."""

    job_type: str | None
    handler: Callable[..., Any] | None
    payload: Any
    fields: Mapping[str, Any]
    rules: Mapping[str, Any]


class App:
    """Handlers by job type. One per program, at module level, so that `tidemill worker module:app` finds it."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobType] = {}
        self.schedules: dict[str, Declared] = {}
        self._around_enqueue: list[EnqueueInterceptor] = []
        self._around_execute: list[ExecuteInterceptor] = []

    def job(
        self,
        name: str,
        *,
        queue: str | None = None,
        retry: str | int | Mapping[str, Any] | None = None,
        unique: bool | Mapping[str, Any] | None = None,
        concurrency: int | Mapping[str, Any] | None = None,
        timeout_ms: int | None = None,
        isolation: Isolation | None = None,
        not_retryable: Iterable[type[BaseException]] = (),
        **fields: Any,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Registers `handler(ctx, payload)` for jobs of type `name` and leaves the function as it is.

        retry: a policy's name, an inline policy, or just max_attempts. unique: True (the whole payload, until final) or API.md's
        object. concurrency: at most so many at once, or API.md's object. timeout_ms: also holds for jobs that were enqueued
        without one. isolation: thread (default), async (default for coroutines) or process (own memory, can be killed).
        fields: any other create field. Raises AppInvalid for a name that is taken.
        """

        def register(handler: Callable[P, R]) -> Callable[P, R]:
            kind = isolation or ("async" if inspect.iscoroutinefunction(handler) else "thread")
            self._check(name, kind, timeout_ms, handler)
            defaults: dict[str, Any] = {"queue": queue, "timeout_ms": timeout_ms, **fields, **_retry(retry)}
            defaults["unique"] = {} if unique is True else unique or None
            defaults["concurrency"] = {"limit": concurrency} if isinstance(concurrency, int) else concurrency
            kept = {key: value for key, value in defaults.items() if value is not None}
            self.jobs[name] = JobType(name, handler, kind, timeout_ms, tuple(not_retryable), kept)
            return handler

        return register

    def schedule(
        self,
        name: str,
        *,
        cron: str | None = None,
        every_ms: int | None = None,
        timezone: str = "UTC",
        job_type: str | None = None,
        payload: Mapping[str, Any] | None = None,
        job: Mapping[str, Any] | None = None,
        **rules: Any,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Declares a schedule, which workers of this app upsert when they start; one that is declared no more they pause, with a note.

        Above `@app.job(…)` its jobs are of that type; with `job_type` it is complete by itself and need not decorate anything.
        job: further create fields, laid over the registered defaults. rules: `on_missed`, `overlap`, `jitter_ms` … (API.md §5).
        Whether the expression is legal is looked at when a worker starts. Raises AppInvalid for a name that is taken.
        """
        if not limits.is_name(name):
            raise AppInvalid(f"schedule {name[:200]!r} {limits.NAME_RULE}")
        if name in self.schedules:
            raise AppInvalid(f"schedule {name!r} is declared twice; give one of them another name")
        timing = {"cron": cron, "every_ms": every_ms, "timezone": timezone, **rules}

        def declare(handler: Callable[P, R]) -> Callable[P, R]:
            if job_type is None:
                self.schedules[name] = Declared(None, handler, payload, job or {}, timing)
            return handler

        if job_type is not None:
            self.schedules[name] = Declared(job_type, None, payload, job or {}, timing)
        return declare

    def intercept_enqueue(self, interceptor: EnqueueInterceptor) -> EnqueueInterceptor:
        """Wraps every enqueue of this app: `interceptor(job, proceed)` returns `proceed(job)`, or its own answer. First in is outermost."""
        self._around_enqueue.append(interceptor)
        return interceptor

    def intercept_execute(self, interceptor: ExecuteInterceptor) -> ExecuteInterceptor:
        """Wraps every execution: `interceptor(ctx, payload, proceed)` returns `proceed(ctx, payload)` (an awaitable for async jobs)."""
        self._around_execute.append(interceptor)
        return interceptor

    def job_object(self, job_type: str, payload: Any = None, **fields: Any) -> JobObject:
        """A job object with the registered defaults, `fields` laid over them; None takes a default away. An unregistered type has none."""
        known = self.jobs.get(job_type)
        merged = {**(known.defaults if known else {}), **fields}
        job = {"job_type": job_type, "payload": {} if payload is None else payload}
        job |= {key: value for key, value in merged.items() if value is not None}
        traces.inject(job)
        return job

    def enqueue(self, via: Callable[[JobObject], R], job_type: str, payload: Any = None, **fields: Any) -> R:
        """What `via(job)` answers, within the interceptors. `via`: a client's enqueue, or anything that takes a job object."""
        answer: R = self.intercepted(via)(self.job_object(job_type, payload, **fields))
        return answer

    def intercepted(self, via: Callable[[JobObject], Any]) -> Callable[[JobObject], Any]:
        """`via` within the enqueue interceptors."""
        for interceptor in reversed(self._around_enqueue):
            via = partial(_enqueue_within, interceptor, via)
        return via

    def execution(self, job_type: JobType) -> Execute:
        """The handler within the execute interceptors, and all that within a span where the program traces (observe.traces)."""
        run: Execute = job_type.handler
        for interceptor in reversed(self._around_execute):
            run = partial(_execute_within, interceptor, run)
        return partial(traces.executed, run) if traces.is_on() else run

    def _check(self, name: str, kind: str, timeout_ms: int | None, handler: Callable[..., Any]) -> None:
        if not limits.is_name(name):
            raise AppInvalid(f"job type {name[:200]!r} {limits.NAME_RULE}")
        if name in self.jobs:
            known = self.jobs[name].handler
            raise AppInvalid(
                f"job type {name!r} is registered twice: by {_place(known)} and by {_place(handler)}; give one of them another name"
            )
        if kind not in ISOLATIONS:
            raise AppInvalid(f"job type {name!r}: isolation {kind!r} is none of {', '.join(ISOLATIONS)}")
        if kind != "async" and inspect.iscoroutinefunction(handler) and kind == "thread":
            raise AppInvalid(f"job type {name!r}: a coroutine runs with isolation 'async' or 'process', not 'thread'")
        if kind == "async" and not inspect.iscoroutinefunction(handler):
            raise AppInvalid(f"job type {name!r}: isolation 'async' needs an `async def`")
        if timeout_ms is not None and not limits.TIMEOUT_MS[0] <= timeout_ms <= limits.TIMEOUT_MS[1]:
            raise OutOfRange("timeout_ms", value=timeout_ms, low=limits.TIMEOUT_MS[0], high=limits.TIMEOUT_MS[1])


def _retry(retry: str | int | Mapping[str, Any] | None) -> dict[str, Any]:
    if isinstance(retry, int):
        return {"max_attempts": retry}
    return {"retry_policy": dict(retry) if isinstance(retry, Mapping) else retry}


def _enqueue_within(interceptor: EnqueueInterceptor, proceed: Callable[[JobObject], Any], job: JobObject) -> Any:
    return interceptor(job, proceed)


def _execute_within(interceptor: ExecuteInterceptor, proceed: Execute, ctx: Any, payload: Any) -> Any:
    return interceptor(ctx, payload, proceed)


def _place(handler: Callable[..., Any]) -> str:
    return re.sub(r"^__main__\.", "", f"{getattr(handler, '__module__', '?')}.{getattr(handler, '__qualname__', handler)}")
