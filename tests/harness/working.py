"""Workers to test: in this process (`working`) or as real ones (`WorkerProcess`), on a mill's project."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.mill import Mill
from tidemill.ports import JobSource
from tidemill.runner.app import App
from tidemill.runner.log import Log
from tidemill.runner.options import WorkerOptions
from tidemill.runner.sources.postgres import PostgresSource
from tidemill.runner.worker import Worker

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECS = 120.0  # for what never comes: a machine with many neighbours takes its time
LOOK_SECS = 0.01


def eventually(look: Callable[[], Any], timeout_s: float = PATIENCE_SECS) -> Any:
    """What `look` returns once it is true."""
    pause, ends_at = threading.Event(), time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < ends_at, "it never came true"
        pause.wait(LOOK_SECS)
    return found


class Lines:
    """A log stream whose events can be looked at."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def write(self, text: str) -> int:
        if text.strip():
            self.events.append(json.loads(text))
        return len(text)

    def flush(self) -> None:
        pass

    def named(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.events if line["event"] == event]


@contextmanager
def working(mill: Mill, app: App, source: JobSource | None = None, **options: Any) -> Iterator[Worker]:
    """A worker in threads of this process, stopped at the end. `worker.lines` has what it logged."""
    lines = Lines()
    settings = {"concurrency": 4, "stop_window_secs": 5.0, "name": "inside", **options}
    worker = Worker(
        app, source or PostgresSource(mill.dsn, mill.project_id), WorkerOptions(**settings), Log("debug", lines)
    )  # fmt: skip
    worker.lines = lines
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        eventually(lambda: lines.named("started"))
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE_SECS)
        assert not thread.is_alive(), "the worker did not stop"


class WorkerProcess:
    """`tidemill worker` on `harness.jobs`, as a process; its log is read as it comes."""

    def __init__(self, mill: Mill, *options: str, app: str = "harness.jobs:app", environment: dict[str, str] | None = None) -> None:
        path = os.pathsep.join([str(ROOT / "functions"), str(ROOT / "tests")])
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("TIDEMILL_")}
        given = {**inherited, "PYTHONPATH": path, **(environment or {})}
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tidemill.cli", "worker", app, "--dsn", mill.dsn, "--project", mill.project_id, *options],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=given,
        )  # fmt: skip
        self.pid = self.process.pid
        self.events: list[dict[str, Any]] = []
        self.words: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def saw(self, event: str, timeout_s: float = PATIENCE_SECS) -> dict[str, Any]:
        """The first log line of that event, waited for."""

        def look() -> dict[str, Any] | None:
            return next((line for line in self.events if line["event"] == event), None)

        with self._news:
            assert self._news.wait_for(look, timeout_s), f"no {event!r} in {self.events} {self.words}"
        found = look()
        assert found is not None
        return found

    def signal(self, number: int = signal.SIGTERM) -> float:
        """Sends it; when that was."""
        at = time.monotonic()
        self.process.send_signal(number)
        return at

    def ended(self, timeout_s: float = PATIENCE_SECS) -> int:
        """Its exit code, waited for."""
        code = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                try:
                    self.events.append(json.loads(line))
                except ValueError:
                    self.words.append(line.rstrip())
                self._news.notify_all()
