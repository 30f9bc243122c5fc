"""A real `tidemill dev` as a process of its own, and what is left of it afterwards."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import psutil

from harness import seed

FUNCTIONS = Path(__file__).resolve().parents[2] / "functions"
COMMAND = (sys.executable, "-m", "tidemill.cli")
READY_S = 180.0
END_S = 180.0


def environment(**settings: str) -> dict[str, str]:
    """The surroundings of a command: ours without settings, and these."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")}
    return {**ours, "PYTHONPATH": str(FUNCTIONS), **settings}


def cli(*arguments: str, cwd: Path | None = None, text: str | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself, from a process that has loaded its libraries; `dev` starts as people start it."""
    if arguments[:1] != ("dev",):
        return seed.command(arguments, env=environment(**settings), cwd=cwd, text=text, timeout_s=END_S)
    return subprocess.run(
        [*COMMAND, *arguments], env=environment(**settings), cwd=cwd, input=text, capture_output=True, text=True, check=False, timeout=END_S
    )


class Dev:
    """Begun when made; `ready()` waits for it. A context manager that ends it and whatever it left."""

    def __init__(
        self,
        *arguments: str,
        command: Sequence[str] = (*COMMAND, "dev", "--json"),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """`env`: all that it sees of ours (None: everything but settings, and this checkout)."""
        self.process = subprocess.Popen(
            [*command, *arguments], env=environment() if env is None else env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.errors: list[str] = []
        self.lines: list[str] = []
        self._has_line = threading.Event()
        self._readers = [threading.Thread(target=self._read_lines), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()
        self.about: dict[str, Any] = {}

    def ready(self) -> "Dev":
        """Waits for the line; what it says is in `about`."""
        assert self._has_line.wait(READY_S), "not ready in time"
        assert self.lines, f"ended with {self.process.wait(END_S)}: {''.join(self.errors)[-2000:]}"
        self.about = json.loads(self.lines[0])
        return self

    @property
    def url(self) -> str:
        return str(self.about["url"])

    @property
    def dsn(self) -> str:
        return str(self.about["dsn"])

    def client(self, **arguments: Any) -> httpx.Client:
        """An HTTP client with the printed key. Nothing is encrypted here, so it loads no authorities, which takes 60 ms."""
        return httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {self.about['api_key']}"}, timeout=40, verify=False, **arguments
        )

    def family(self) -> list[psutil.Process]:
        """Every process that comes from it, now."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def running(self, word: str) -> list[psutil.Process]:
        """Those of the family that have this word in their command line."""
        found = []
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                found += [process] if any(word in argument for argument in process.cmdline()) else []
        return found

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Sends the signal and waits; the exit code."""
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        """Waits for its end; the exit code."""
        code = self.process.wait(END_S)
        for reader in self._readers:
            reader.join(END_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    def __enter__(self) -> "Dev":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            family = self.family()
            self.process.terminate()
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                for process in family:
                    process.kill()
                self.process.kill()
        self.wait()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self._has_line.set()
        self._has_line.set()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line)


@dataclass
class Watched:
    """The processes seen while something ran, and whether they are gone."""

    seen: dict[int, psutil.Process] = field(default_factory=dict)

    def note(self, dev: Dev) -> None:
        """Remember who is there."""
        self.seen |= {process.pid: process for process in dev.family()}

    def left(self, within_s: float = 60.0) -> list[str]:
        """The command lines of those that do not end."""
        _, alive = psutil.wait_procs(self.seen.values(), timeout=within_s)
        return [" ".join(process.cmdline()) for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def catches(pid: int, number: signal.Signals) -> bool:
    """Has this process a handler for the signal yet?"""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")]
    return bool(masks and masks[0] >> (number - 1) & 1)


def has_ended(pid: int) -> bool:
    """Has the process ended, whether or not its parent has taken note? Its first thread may be gone while others still are on their way."""
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


def until(condition: Any, within_s: float = 120.0, what: str = "") -> None:
    """Waits for something that another process does; fails after a while."""
    deadline = time.monotonic() + within_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"did not happen in {within_s:g} s: {what or condition}"
        pause.wait(0.01)


def folders_of(pid: int) -> list[Path]:
    """The temporary data folders that this process made and that are still there: each names its owner in its lock."""
    found = []
    for folder in (tempfile.gettempdir(), "/dev/shm"):
        for lock in Path(folder).glob("tidemill-*/lock"):
            with contextlib.suppress(OSError):
                found += [lock.parent] if lock.read_text().strip() == str(pid) else []
    return found
