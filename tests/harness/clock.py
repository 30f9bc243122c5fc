"""Bounds on time that hold on a machine at rest and give way, in proportion, on one that others keep busy."""

from __future__ import annotations

import os
import time
from pathlib import Path

LOADAVG = Path("/proc/loadavg")
SAMPLE_S = 0.02


def allowed(bound: float) -> float:
    """`bound` times how long a moment lasts here now: 1 at rest. Ask after the act, so that it is the act's machine that is looked at."""
    return bound * max(1.0, _queueing(), _stolen())


def _queueing() -> float:
    """How many want each processor."""
    return max(os.getloadavg()[0], _running()) / (os.cpu_count() or 1)


def _running() -> float:
    try:
        return float(LOADAVG.read_text(encoding="ascii").split()[3].split("/")[0])
    except (OSError, IndexError, ValueError):
        return 0.0


def _stolen() -> float:
    """How much longer than its processor time a busy thread takes; sees the limits of a container, too."""
    wall, cpu = time.perf_counter(), time.thread_time()
    while time.thread_time() - cpu < SAMPLE_S:
        pass
    return (time.perf_counter() - wall) / SAMPLE_S
