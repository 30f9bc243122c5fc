"""What gates cost: drains of gated queues beside an ungated one, a claim past blocked jobs, and the reach of fair shares beside a flood."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

from benchmarks.blocked import blocked_rows
from benchmarks.clients import bodies
from benchmarks.flood import flood_rows
from benchmarks.measure import Say, Size
from benchmarks.results import Row
from benchmarks.rig import make_base
from benchmarks.workers import drain, workers
from tidemill.local import postgres

NAMES: Final = 1_000
WORKERS: Final = 2
Make = Callable[[int], list[dict[str, Any]]]


def gates_rows(running: postgres.Server, size: Size, say: Say) -> list[Row]:
    """All rows of the section. Where another one says `bare loop`, here stands the ungated queue."""
    return [*_drains(running, size, say), *blocked_rows(running, say), *flood_rows(running, size, say)]


def _keyed(count: int) -> list[dict[str, Any]]:
    return [{**job, "concurrency": {"limit": 1, "key": f"k{i % NAMES}"}} for i, job in enumerate(bodies(count))]


def _parted(count: int) -> list[dict[str, Any]]:
    return [{**job, "partition_key": f"p{i % NAMES}"} for i, job in enumerate(bodies(count))]


MAKES: Final[dict[str, Make]] = {
    "ungated": bodies,
    f"a concurrency key per job, {NAMES:,} keys of limit 1": _keyed,
    f"{NAMES:,} partitions": _parted,
}


def _drains(running: postgres.Server, size: Size, say: Say) -> list[Row]:
    """Each kind has a database and two idle worker processes of its own; they take turns."""
    rates: dict[str, list[float]] = {what: [] for what in MAKES}
    used: dict[str, list[float]] = {what: [] for what in MAKES}
    with ExitStack() as stack:
        bases = {what: make_base(running, f"bench_gate_{at}") for at, what in enumerate(MAKES)}
        pids = {what: stack.enter_context(workers(base, WORKERS)) for what, base in bases.items()}
        for what, make in MAKES.items():
            drain(bases[what], size.jobs, pids[what], make)  # plans, caches, threads
        for turn in range(size.runs):
            for what in list(MAKES)[:: -1 if turn % 2 else 1]:
                rate, us = drain(bases[what], size.jobs, pids[what], MAKES[what])
                rates[what].append(rate)
                used[what].append(us)
    rows = []
    for what in list(MAKES)[1:]:
        row = Row("gates", f"drain of {size.jobs:,}, {WORKERS} workers, {what}", ours=rates[what], bare=rates["ungated"])
        row.note = f"CPU {statistics.median(used[what]):.0f} µs a job, ungated {statistics.median(used['ungated']):.0f}"
        rows.append(row)
        say(f"{row.what}: {row.ratio:.2f} of ungated; {row.note}")
    return rows
