"""Builds the page when its sources are newer than it, in the background: nobody waits for it, and without it everything else works."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidemill.local.page import BUILT
from tidemill.local.runtime.functions import ROOT

CHECKOUT: Final = ROOT.parent
LOOK_S: Final = 1.0
NAMED: Final = ("index.html", "package.json", "package-lock.json", "vite.config.ts", "tsconfig.json")

logger = logging.getLogger(__name__)


class PageBuilder:
    """`checkout`: the folder with scripts/build and frontend/. Where either is missing (an installed package) there is nothing to do."""

    def __init__(self, checkout: Path = CHECKOUT, built: Path = BUILT) -> None:
        self._script, self._frontend, self._built = checkout / "scripts" / "build", checkout / "frontend", built
        self._child: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Looks every second, until cancelled. A build that fails says so once and is tried again when the sources change."""
        tried = 0.0
        try:
            while self._script.is_file():
                newest = max(map(_changed_at, self._sources()), default=0.0)
                if newest > max(tried, _changed_at(self._built)):
                    tried = newest
                    await self._build()
                await asyncio.sleep(LOOK_S)
            await asyncio.get_running_loop().create_future()
        finally:
            await self._stop()

    async def _stop(self) -> None:
        """End a build that is under way, with all that it began."""
        child = self._child
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.communicate()

    async def _build(self) -> None:
        logger.info("the page is being built")
        self._child = child = await asyncio.create_subprocess_exec(
            str(self._script), cwd=self._frontend.parent, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await child.communicate()
        if child.returncode:
            last = output.decode(errors="replace").strip().splitlines()[-1:]
            logger.warning("the page is not built (scripts/build shows why): %s", *last or [f"exit code {child.returncode}"])
        else:
            logger.info("the page is built: reload it")

    def _sources(self) -> Iterator[Path]:
        yield from (self._frontend / name for name in NAMED)
        yield from self._frontend.joinpath("src").rglob("*")


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
