"""Says once that the code on disk is no longer the code that runs, as after a `git pull`."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidemill.local.runtime.functions import ROOT
from tidemill.store.migration_files import default_folder

LOOK_S: Final = 5.0
SUFFIXES: Final = (".py", ".sql")
CHANGED: Final = "the code has changed since this instance started (%s): end it and start it again, until then old and new may meet"

logger = logging.getLogger(__name__)


class CodeWatch:
    """`folders`: where the code lies. `on_terminal`: say it there as well as in the log, which is a file then."""

    def __init__(self, *folders: Path, on_terminal: bool = False) -> None:
        package = Path(__file__).resolve().parents[1]
        self._folders = folders or tuple(dict.fromkeys((ROOT, package, default_folder())))
        self._on_terminal = on_terminal

    async def run(self) -> None:
        """Looks every few seconds until something has changed and is told; then waits to be cancelled."""
        before, changed = await asyncio.to_thread(self._stamps), ""
        while not changed:
            await asyncio.sleep(LOOK_S)
            changed = await self._changed(before)
        logger.warning(CHANGED, changed)
        if self._on_terminal:
            print(f"tidemill: {CHANGED % changed}", file=sys.stderr, flush=True)
        await asyncio.get_running_loop().create_future()

    async def _changed(self, before: dict[Path, int]) -> str:
        """A file that is new, gone or another, by its name; "" if there is none."""
        now = await asyncio.to_thread(self._stamps)
        if now == before:
            return ""
        return next(path.name for path in sorted({*before, *now}) if before.get(path) != now.get(path))

    def _stamps(self) -> dict[Path, int]:
        return {path: stamp for folder in self._folders for path, stamp in _stamps(folder)}


def _stamps(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in folder.rglob("*"):
        if path.suffix in SUFFIXES:
            try:
                yield path, path.stat().st_mtime_ns
            except OSError:
                continue  # gone between the two looks
