"""Starts `harness.actor` processes and reads what they say."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.mill import Mill

ROOT = Path(__file__).resolve().parents[2]


class Actor:
    """One process; `kill` is a SIGKILL."""

    def __init__(self, mill: Mill, verb: str, count: int) -> None:
        path = os.pathsep.join([str(ROOT / "functions"), str(ROOT / "tests")])
        command = [sys.executable, "-m", "harness.actor", mill.dsn, mill.project_id, verb, str(count)]
        environment = {**os.environ, "PYTHONPATH": path}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def line(self) -> Any:
        """The next thing it says."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def go(self) -> None:
        """The word that a `churn` waits for."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def rest(self) -> list[Any]:
        """All that it still says until it ends by itself."""
        out, _ = self._process.communicate(timeout=120)
        assert self._process.returncode == 0
        return [json.loads(line) for line in out.splitlines()]

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=60)

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def actors(mill: Mill, verb: str, how_many: int, count: int = 10) -> Iterator[list[Actor]]:
    started = [Actor(mill, verb, count) for _ in range(how_many)]
    try:
        yield started
    finally:
        for actor in started:
            actor.close()
