"""The worker's own log: one JSON object per line on stderr. Never a payload, a result, an error's text, a key or a token."""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime
from typing import Final, TextIO

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log:
    """Writes events at or above a level; `bound` fields go along with each."""

    def __init__(self, level: str = "info", stream: TextIO | None = None, **bound: object) -> None:
        self._least = LEVELS[level]
        self._stream = stream
        self._bound = bound
        self._lock = threading.Lock()

    def bind(self, **fields: object) -> None:
        """Adds fields to every later event."""
        self._bound = {**self._bound, **fields}

    def debug(self, event: str, **fields: object) -> None:
        """For whoever looks closely."""
        self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """For the record: the worker's life."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """It goes on, but something is not as it should be."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Somebody should look."""
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        if LEVELS[level] < self._least:
            return
        line = {"ts": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"), "level": level, "event": event}
        text = json.dumps({**line, **self._bound, **fields}, default=str)
        stream = self._stream or sys.stderr
        with self._lock:
            try:
                stream.write(text + "\n")
                stream.flush()
            except (AttributeError, OSError, ValueError):
                return  # nobody reads it any more, or a handler took it away; the work goes on
