"""A whole local instance (`tidemill dev`) of the test's own, on a free port, with a database that is thrown away."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
END_SECS = 120


@dataclass(frozen=True, slots=True)
class Instance:
    """What it printed when it was ready."""

    url: str
    api_key: str
    project_id: str
    dsn: str


@contextmanager
def running(log: IO[bytes], *options: str) -> Iterator[Instance]:
    """Starts it, waits for its one line, and ends it with what it began."""
    command = [sys.executable, "-m", "tidemill.cli", "dev", "--ephemeral", "--port", "0", "--json", "--no-worker", *options]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("TIDEMILL_")}
    environment["PYTHONPATH"] = str(ROOT / "functions")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=ROOT)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, f"tidemill dev ended with {process.wait(END_SECS)}"
        told = json.loads(line)
        yield Instance(told["url"], told["api_key"], told["project_id"], told["dsn"])
    finally:
        process.terminate()
        try:
            more, _ = process.communicate(timeout=END_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            more, _ = process.communicate()
    assert more == b"", "standard output is for the one line: whoever does not read on would stop the functions once the pipe is full"
