"""Processor time, which neighbours on the same machine disturb less than they disturb rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import psutil


def seconds(roots: Iterable[int]) -> float:
    """What these processes and all their descendants have used so far."""
    used = 0.0
    for pid in roots:
        try:
            root = psutil.Process(pid)
            family = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
        for process in family:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            used += times.user + times.system
    return used


def per_job_us(roots: Iterable[int], jobs: int, run: Callable[[], float]) -> tuple[float, float]:
    """What `run` returns, and the processor time it took per job, in µs."""
    pids = list(roots)
    before = seconds(pids)
    answer = run()
    return answer, (seconds(pids) - before) / jobs * 1e6
