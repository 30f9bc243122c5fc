"""The demo worker: `tidemill worker` as a process of its own, begun again when it ends by itself."""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from tidemill.local.runtime.functions import ROOT
from tidemill.local.runtime.process import STDERR

APP: Final = "tidemill.local.demo_jobs:app"
STOP_WINDOW_S: Final = 4
"""How long running jobs may go on after the end was asked for; then they go back to their queue."""
STOP_TIMEOUT_S: Final = 8.0
ARGUMENTS: Final = ("--stop-window-secs", str(STOP_WINDOW_S))
AGAIN_AFTER_S: Final = (1.0, 2.0, 5.0, 15.0, 60.0)
STEADY_S: Final = 30.0
"""One that ran this long begins again as if for the first time."""

logger = logging.getLogger(__name__)


class DemoWorker:
    """`settings` are the `TIDEMILL_…` variables it gets; its output goes to `log` (None = our standard error).

    handlers: a folder whose `app` runs instead of the demo's.
    """

    def __init__(self, settings: Mapping[str, str], log: IO[bytes] | int | None, *, handlers: Path | None = None, app: str = APP) -> None:
        self._settings, self._log, self._handlers = settings, STDERR if log is None else log, handlers
        self._arguments = (app if handlers else APP, *ARGUMENTS)
        self._child: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._child.pid if self._child is not None and self._child.returncode is None else None

    async def run(self) -> None:
        """Keeps one running until cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            self._child = await self._spawn()
            code = await self._child.wait()
            failures = 0 if loop.time() - began > STEADY_S else failures + 1
            pause_s = AGAIN_AFTER_S[min(failures, len(AGAIN_AFTER_S)) - 1] if failures else AGAIN_AFTER_S[0]
            logger.warning("the demo worker ended with %s; another begins in %g s", code, pause_s)
            await asyncio.sleep(pause_s)

    async def stop(self) -> None:
        """Ask it to finish what it has begun; end it when it takes too long."""
        child = self._child
        if child is None or child.returncode is not None:
            return
        for end in (child.terminate, child.kill):
            with contextlib.suppress(ProcessLookupError):
                end()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await child.wait()
                    return

    async def _spawn(self) -> asyncio.subprocess.Process:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")}
        path = os.pathsep.join(part for part in (str(ROOT), str(self._handlers or ""), environment.get("PYTHONPATH", "")) if part)
        return await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "tidemill.local.watched", "tidemill.cli", "worker", *self._arguments,
            stdin=asyncio.subprocess.PIPE, stdout=self._log, stderr=self._log, start_new_session=True,
            env={**environment, "PYTHONPATH": path, **self._settings},
        )  # fmt: skip
