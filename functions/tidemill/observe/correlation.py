"""Which attempt a line of a worker's log belongs to: job, queue, attempt and trace, on all that a handler's loggers write while it runs."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from tidemill.domain.jobs import ClaimedJob
from tidemill.observe import traces

RUNNING: Final[ContextVar[ClaimedJob | None]] = ContextVar("tidemill_running", default=None)
"""The job whose handler runs here: set by the executors, and inherited by what `asyncio` starts from there."""

FIELDS: Final = ("job_id", "job_type", "queue", "attempt", "trace_id", "span_id")
_PLAIN: Final = frozenset((*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName"))
_CHATTY: Final = ("httpx", "httpcore")
"""They say at `info` what our own connection to the API does, several times a second."""


def about(job: ClaimedJob) -> dict[str, Any]:
    """What names this attempt in a log; the trace's id where the job carries one."""
    trace_id = _ids(job.traceparent)[0]
    named = {"job_id": job.job_id, "job_type": job.job_type, "queue": job.queue, "attempt": job.attempt}
    return {**named, "trace_id": trace_id} if trace_id else named


class JobFields(logging.Filter):
    """Gives each record the FIELDS of the attempt that runs where it was written, None outside of one; lets all pass.

    For handlers of your own: `handler.addFilter(JobFields())`, then `%(job_id)s`, `%(trace_id)s` … in their format. `span_id` is the
    attempt's own span where the program traces, else the one from which the job was enqueued.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """True. What the record has already, as from `extra`, stays."""
        job = RUNNING.get()
        found: dict[str, Any] = {}
        if job is not None:
            trace_id, span_id = traces.current() or _ids(job.traceparent)
            found = {**about(job), "trace_id": trace_id, "span_id": span_id}
        for name in FIELDS:
            record.__dict__.setdefault(name, found.get(name))
        return True


class JsonLines(logging.Formatter):
    """One JSON object per line, as the worker's own log: ts, level, event (the message), logger, and what `extra` and JobFields add."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        line |= {name: value for name, value in vars(record).items() if name not in _PLAIN and value is not None}
        if record.exc_info:
            line["stack"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def install(level: str) -> None:
    """Sets up the program's logging unless it has done so itself: JSON lines on stderr. Every handler of the root logger gets JobFields."""
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(JsonLines())
        root.addHandler(handler)
        root.setLevel(level.upper())
        for name in _CHATTY:
            if logging.getLogger(name).level == logging.NOTSET:
                logging.getLogger(name).setLevel(logging.WARNING)
    for known in root.handlers:
        known.addFilter(JobFields())


def _ids(traceparent: str | None) -> tuple[str | None, str | None]:
    """Trace and span of a W3C traceparent; None for what is none."""
    parts = (traceparent or "").split("-")
    return (parts[1], parts[2]) if len(parts) >= 4 and len(parts[1]) == 32 and len(parts[2]) == 16 else (None, None)
