"""The context that a handler gets inline: the same names as in production, writing into the job's `Ran`."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tidemill.domain.keys import compact_json

if TYPE_CHECKING:
    from datetime import datetime

    from tidemill.testing.inline import AnyApp, Ran


class InlineParent(NamedTuple):
    """A job of the same call that this one depended on: `completed` with its result, or `dead_letter`."""

    id: str
    state: str
    result: Any


class InlineContext:
    """For plain functions. `cancelled` is what the test asked for."""

    def __init__(self, app: AnyApp, ran: Ran, attempt: int, parents: Mapping[str, InlineParent], *, is_cancelled: bool) -> None:
        self._parents = parents
        self.app, self._ran, self.attempt, self.cancelled = app, ran, attempt, is_cancelled
        job = ran.job
        self.id, self.job_type, self.queue = ran.id, job["job_type"], job.get("queue", "default")
        self.max_attempts, self.schema_version = job.get("max_attempts", 5), job.get("schema_version")
        self.fence = attempt
        self.headers: Mapping[str, str] = dict(job.get("headers") or {})
        self.deadline: datetime | None = None
        self.log = InlineLog(ran)

    @property
    def checkpoint(self) -> Any:
        """What the test, or this attempt, has saved."""
        return self._ran.checkpoint

    @property
    def parents(self) -> Any:
        """The jobs of `depends_on` that ran before this one, by id."""
        return self._parents

    def raise_if_cancelled(self) -> None:
        """Raises Cancelled if `cancelled`."""
        if self.cancelled:
            from importlib import import_module  # a neighbour, loaded already by whoever made the app

            raise import_module("tidemill.runner.outcomes").Cancelled

    def flush_log(self) -> None:
        """Nothing is held back here."""

    def progress(self, current: int, total: int | None = None, message: str | None = None) -> Any:
        """Keeps it in `Ran.progress`."""
        self._ran.progress = (current, total, message)

    def save_checkpoint(self, data: Any, cursor: str | None = None) -> Any:  # noqa: ARG002 - the worker's signature
        """Keeps it in `Ran.checkpoint`."""
        self._ran.checkpoint = json.loads(compact_json(data))

    def output(self, data: Any) -> Any:
        """Keeps it in `Ran.output`."""
        self._ran.output = json.loads(compact_json(data))

    def enqueue(self, job_type: str, payload: Any = None, **fields: Any) -> Any:
        """Runs the job after this one; its place among the children as an id."""

        def via(job: dict[str, Any]) -> str:
            self._ran.enqueued.append(json.loads(compact_json(job)))
            return f"{self.id}.{len(self._ran.enqueued)}"

        return self.app.intercepted(via)(self.app.job_object(job_type, payload, **fields))


class InlineAsyncContext(InlineContext):
    """For coroutines: what reports can be awaited, or not."""

    @property
    def parents(self) -> Done:
        """The jobs of `depends_on` that ran before this one, by id."""
        return Done(self._parents)

    def progress(self, current: int, total: int | None = None, message: str | None = None) -> Done:
        """Keeps it in `Ran.progress`."""
        return Done(super().progress(current, total, message))

    def save_checkpoint(self, data: Any, cursor: str | None = None) -> Done:
        """Keeps it in `Ran.checkpoint`."""
        return Done(super().save_checkpoint(data, cursor))

    def output(self, data: Any) -> Done:
        """Keeps it in `Ran.output`."""
        return Done(super().output(data))

    def enqueue(self, job_type: str, payload: Any = None, **fields: Any) -> Done:
        """Runs the job after this one."""
        return Done(super().enqueue(job_type, payload, **fields))

    async def settled(self) -> None:
        """Everything is written already."""


class Done:
    """An awaitable whose answer is there already."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __await__(self) -> Generator[None, None, Any]:
        yield from ()
        return self._value


class InlineLog:
    """Keeps the lines in `Ran.log` as (level, text)."""

    def __init__(self, ran: Ran) -> None:
        self._ran = ran

    def debug(self, message: str, **fields: Any) -> None:
        """A line for whoever looks closely."""
        self._write("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        """A line for the record."""
        self._write("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """A line about what may go wrong."""
        self._write("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        """A line about what went wrong."""
        self._write("error", message, fields)

    def flush(self) -> None:
        """Nothing is held back here."""

    def _write(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        self._ran.log.append((level, f"{message} {compact_json(dict(fields))}" if fields else message))
