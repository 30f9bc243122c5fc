"""What a handler gets beside its payload."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from tidemill.domain import limits
from tidemill.domain.jobs import LogLine
from tidemill.domain.keys import compact_json
from tidemill.domain.text import cleaned
from tidemill.ports import JobSource
from tidemill.runner.acks import result_json
from tidemill.runner.app import App
from tidemill.runner.outcomes import Cancelled
from tidemill.runner.task import Task

LOG_LINES_HELD: Final = 100
LOG_SECS_HELD: Final = 1.0


class Parent(NamedTuple):
    """A job that this one depended on: how it stands (None once it has been removed), and what it returned."""

    id: str
    state: str | None
    result: Any


class Facts:
    """What is known of the attempt; the same for every isolation."""

    __slots__ = ("_source", "_task", "app")

    def __init__(self, task: Task, source: JobSource, app: App) -> None:
        self._task = task
        self._source = source
        self.app = app

    @property
    def id(self) -> str:
        """The job's id."""
        return self._task.job.job_id

    @property
    def job_type(self) -> str:
        """The name the handler was registered under."""
        return self._task.job.job_type

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._task.job.queue

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self._task.job.attempt

    @property
    def max_attempts(self) -> int:
        """How many there may be, the first included."""
        return self._task.job.max_attempts

    @property
    def fence(self) -> int:
        """Rises with every lease on this job: hand it to what you write to, so that it can refuse an older one."""
        return self._task.job.fence

    @property
    def schema_version(self) -> int | None:
        """The payload's version, as enqueued."""
        return self._task.job.schema_version

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers the job was enqueued with, and its trace."""
        job = self._task.job
        carried: dict[str, str] = json.loads(job.headers) if job.headers else {}
        trace = {"traceparent": job.traceparent, "tracestate": job.tracestate}
        return carried | {name: value for name, value in trace.items() if value is not None}

    @property
    def deadline(self) -> datetime | None:
        """When the attempt is ended as timed out, by this machine's clock; None = never."""
        if self._task.deadline is None:
            return None
        return datetime.now(UTC) + timedelta(seconds=self._task.deadline - time.monotonic())

    @property
    def checkpoint(self) -> Any:
        """What an earlier attempt saved with `save_checkpoint`, or None."""
        text = self._task.job.checkpoint
        return json.loads(text) if text else None

    @property
    def cancelled(self) -> bool:
        """True once the job should stop: it was cancelled, timed out, lost its lease, or the worker's stop window is over."""
        return self._task.cancelled

    def raise_if_cancelled(self) -> None:
        """Raises Cancelled if `cancelled`; call it where stopping is safe."""
        if self._task.cancelled:
            raise Cancelled

    def _read_parents(self) -> Mapping[str, Parent]:
        found = self._source.parents(self._task.lease)
        return {p.job_id: Parent(p.job_id, p.state, json.loads(p.result) if p.result is not None else None) for p in found}

    def _children(self, jobs: list[dict[str, Any]]) -> list[str]:
        def via(job: dict[str, Any]) -> str:
            found = self._source.children(self._task.lease, [job])[0].job_id
            assert found is not None  # refused ones raised
            return found

        send = self.app.intercepted(via)
        return [send(job) for job in jobs]


class Context(Facts):
    """For handlers in threads and processes. Reports are written before the call returns; LeaseLost says that the attempt is void."""

    __slots__ = ("_log", "_parents")

    def __init__(self, task: Task, source: JobSource, app: App) -> None:
        self._task = task
        self._source = source
        self.app = app
        self._log: JobLog | None = None
        self._parents: Mapping[str, Parent] | None = None

    @property
    def parents(self) -> Mapping[str, Parent]:
        """The jobs of `depends_on` (of a batch's callback: its members) by id, with their results; read when first asked for."""
        if self._parents is None:
            self._parents = self._read_parents()
        return self._parents

    @property
    def log(self) -> JobLog:
        """The job's own log."""
        if self._log is None:
            self._log = JobLog(self._task, self._source)
        return self._log

    def flush_log(self) -> None:
        """Sends log lines that are held back."""
        if self._log is not None:
            self._log.flush()

    def progress(self, current: int, total: int | None = None, message: str | None = None) -> None:
        """Shows how far the job is."""
        self._source.progress(self._task.lease, current, total, _short(message))

    def save_checkpoint(self, data: Any, cursor: str | None = None) -> None:
        """Stores what the next attempt finds in `checkpoint`."""
        self._source.checkpoint(self._task.lease, result_json(data), cursor)

    def output(self, data: Any) -> None:
        """Stores a partial result; the last one stays."""
        self._source.output(self._task.lease, result_json(data))

    def enqueue(self, job_type: str, payload: Any = None, **fields: Any) -> str:
        """Enqueues a job that stands or falls with this lease; its id."""
        return self._children([self.app.job_object(job_type, payload, **fields)])[0]


class AsyncContext(Facts):
    """For coroutines. Reports are under way when the call returns, in order; await it to wait for the answer."""

    __slots__ = ("_loop", "_parents", "_pending", "_reports", "log")

    def __init__(self, task: Task, source: JobSource, app: App, loop: asyncio.AbstractEventLoop, reports: Executor) -> None:
        super().__init__(task, source, app)
        self._loop = loop
        self._reports = reports
        self._pending: set[asyncio.Future[Any]] = set()
        self._parents: asyncio.Future[Mapping[str, Parent]] | None = None
        self.log = JobLog(task, source, self._send)

    @property
    def parents(self) -> asyncio.Future[Mapping[str, Parent]]:
        """The jobs of `depends_on` (of a batch's callback: its members) by id: `(await ctx.parents)[job_id].result`.

        Read when first asked for.
        """
        if self._parents is None:
            self._parents = self._send(self._read_parents)
        return self._parents

    def progress(self, current: int, total: int | None = None, message: str | None = None) -> asyncio.Future[None]:
        """Shows how far the job is."""
        return self._send(self._source.progress, self._task.lease, current, total, _short(message))

    def save_checkpoint(self, data: Any, cursor: str | None = None) -> asyncio.Future[None]:
        """Stores what the next attempt finds in `checkpoint`."""
        return self._send(self._source.checkpoint, self._task.lease, result_json(data), cursor)

    def output(self, data: Any) -> asyncio.Future[None]:
        """Stores a partial result; the last one stays."""
        return self._send(self._source.output, self._task.lease, result_json(data))

    def enqueue(self, job_type: str, payload: Any = None, **fields: Any) -> asyncio.Future[str]:
        """Enqueues a job that stands or falls with this lease; its id."""
        job = self.app.job_object(job_type, payload, **fields)
        return self._send(lambda: self._children([job])[0])

    async def settled(self) -> None:
        """Returns once every report is written; raises what the first failed one raised."""
        self.log.flush()
        while self._pending:
            await asyncio.gather(*self._pending)

    def _send(self, call: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        sent = self._loop.run_in_executor(self._reports, call, *arguments)
        self._pending.add(sent)
        sent.add_done_callback(self._pending.discard)
        return sent


class JobLog:
    """The job's own log, kept with its attempt. Lines are sent by the hundred, by the second, and before the attempt ends."""

    __slots__ = ("_held_since", "_lines", "_send", "_source", "_task")

    def __init__(self, task: Task, source: JobSource, send: Callable[..., Any] | None = None) -> None:
        self._task = task
        self._source = source
        self._send = send
        self._lines: list[LogLine] | None = None
        self._held_since = 0.0

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
        """Sends what is held back."""
        lines, self._lines = self._lines, None
        if not lines:
            return
        if self._send is not None:
            self._send(self._source.logs, self._task.lease, lines)
        else:
            self._source.logs(self._task.lease, lines)

    def _write(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        text = f"{message} {compact_json(dict(fields))}" if fields else message
        now = time.monotonic()
        if self._lines is None:
            self._lines, self._held_since = [], now
        self._lines.append(LogLine(datetime.now(UTC), level, cleaned(text)[: limits.LOG_MESSAGE_CHARS]))
        if len(self._lines) >= LOG_LINES_HELD or now - self._held_since >= LOG_SECS_HELD:
            self.flush()


def _short(message: str | None) -> str | None:
    return None if message is None else cleaned(message)[: limits.PROGRESS_MESSAGE_CHARS]
