"""Processes that handlers have started and not ended."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import defaultdict
from pathlib import Path

_PROC = Path("/proc")


def descendants(pid: int) -> list[int]:
    """Children of the process, theirs, and so on. Empty where there is no /proc to tell."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children[parent].append(int(folder.name))
    found, wave = [], [pid]
    while wave:
        wave = [child for parent in wave for child in children.get(parent, [])]
        found += wave
    return found


def kill_descendants() -> int:
    """Ends all that this process has started, however deep; how many."""
    killed = 0
    for pid in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed
