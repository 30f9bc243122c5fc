"""The processes of `tidemill demo`: a whole instance with a throw-away database, and workers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tidemill.domain.errors import TidemillError

END_SECS: Final = 20.0
PACKAGES: Final = str(Path(__file__).resolve().parents[2])


class DemoBroken(TidemillError):
    """A part of the demo did not start."""

    code = "demo_broken"


class Stack:
    """`with Stack() as stack`: runs `tidemill dev` on any free port; everything it started ends with the `with`."""

    def __init__(self, log: Path) -> None:
        self._log = log.open("ab")
        self._parts: list[subprocess.Popen[bytes]] = []
        self.url = self.api_key = self.project_id = self.dsn = ""

    def __enter__(self) -> Self:
        instance = self._spawn(["dev", "--ephemeral", "--port", "0", "--json", "--no-worker"], {}, stdout=subprocess.PIPE)
        assert instance.stdout is not None
        line = instance.stdout.readline()
        if not line:
            self.__exit__(None, None, None)
            raise DemoBroken(f"tidemill dev did not start; its log is {self._log.name}")
        told = json.loads(line)
        self.url, self.api_key, self.project_id, self.dsn = (told[name] for name in ("url", "api_key", "project_id", "dsn"))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for part in reversed(self._parts):
            if part.poll() is None:
                part.terminate()
        for part in reversed(self._parts):
            try:
                part.wait(END_SECS)
            except subprocess.TimeoutExpired:
                part.kill()
                part.wait()
            if part.stdout is not None:
                part.stdout.close()
        self._log.close()

    def worker(self, source: str, app: str, *options: str) -> subprocess.Popen[bytes]:
        """One more worker process."""
        settings = {"TIDEMILL_URL": self.url, "TIDEMILL_API_KEY": self.api_key, "TIDEMILL_LOG_LEVEL": "info"}
        if source == "postgres":
            settings = {"TIDEMILL_DATABASE_URL": self.dsn, "TIDEMILL_LOG_LEVEL": "info"}
            options = ("--project", self.project_id, *options)
        return self._spawn(["worker", app, "--source", source, *options], settings)

    def restart_database(self, data_folder: str) -> None:
        """Shuts the server down as a maintenance would (connections are cut); the instance starts it again on the same port."""
        pid = int((Path(data_folder) / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGINT)

    def _spawn(self, arguments: list[str], settings: dict[str, str], **how: Any) -> subprocess.Popen[bytes]:
        environment = {name: text for name, text in os.environ.items() if not name.startswith("TIDEMILL_")}
        path = os.pathsep.join(part for part in (PACKAGES, environment.get("PYTHONPATH", "")) if part)
        part = subprocess.Popen(
            [sys.executable, "-P", "-m", "tidemill.cli", *arguments],
            **{"stdin": subprocess.DEVNULL, "stdout": self._log, "stderr": self._log, "start_new_session": True, **how},
            env={**environment, "PYTHONPATH": path, **settings},
        )
        self._parts.append(part)
        return part


def kill(worker: subprocess.Popen[bytes]) -> None:
    """SIGKILL: it can say nothing more."""
    with contextlib.suppress(ProcessLookupError):
        worker.send_signal(signal.SIGKILL)
    worker.wait()
