"""The measurements. Each takes turns with its ceiling, so that both meet the same machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks import cpu
from benchmarks.clients import Clients
from benchmarks.results import Row
from benchmarks.rig import Base
from benchmarks.workers import drain, pick_ups_ms, workers

Say = Callable[[str], None]
BATCH = 500
"""What the runner claims at most at once; the bare loops take the same."""

TURNS = 5
"""Of a step of the churn."""
PICK_UPS_A_TURN = 20


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    runs: int = 3
    secs: float = 2.0
    jobs: int = 20_000
    others: int = 1_000_000
    pick_ups: int = 200
    churn: int = 50_000


QUICK = Size(runs=2, secs=0.5, jobs=6_000, others=100_000, pick_ups=40, churn=10_000)


def enqueues(bases: Sequence[Base], clients: Clients, size: Size, say: Say) -> list[Row]:
    """1, 100 and 1,000 per call from 1 and 8 clients: behind the API's validation, and in an application's transaction."""
    rows = []
    for count in (1, 8):
        for per_call in (1, 100, 1_000):
            made = {base.name: Row("enqueue", _named(f"{per_call:,} per call, {count} client{'s' * (count > 1)}", base)) for base in bases}
            inside = Row("enqueue", f"{per_call:,} per call, {count} client{'s' * (count > 1)}, enqueue_in_transaction")
            for turn in range(size.runs):
                for base in [bases[at] for at in _turns(len(bases), turn)]:
                    options = {"dsn": base.dsn, "per_call": per_call, "secs": size.secs}
                    row = made[base.name]
                    row.ours.append(clients.run("enqueue", count, **options))
                    row.bare.append(clients.run("insert", count, **options))
                    if base is bases[0]:
                        inside.ours.append(clients.run("in_transaction", count, **options))
                        inside.bare.append(clients.run("insert_in_transaction", count, **options))
            rows += [*_beside(list(made.values())), inside]
            say(f"enqueue, {per_call:,} per call, {count} clients: ratio {rows[-2].ratio:.2f}; {rows[-2].note}")
    return rows


def drains(bases: Sequence[Base], clients: Clients, size: Size, say: Say) -> list[Row]:
    """A backlog of no-op jobs with 1 and 2 worker processes, and the bare loop in as many; the databases take turns."""
    rows = []
    for count in (1, 2):
        made = [Row("drain", _named(f"{size.jobs:,} jobs, {count} worker{'s' * (count > 1)}", base)) for base in bases]
        used: list[list[float]] = [[] for _ in bases]
        used_bare: list[list[float]] = [[] for _ in bases]
        with ExitStack() as stack:
            pids = [stack.enter_context(workers(base, count)) for base in bases]
            for base in bases:
                drain(base, size.jobs)  # plans, caches, threads
            for turn in range(size.runs):
                for at in _turns(len(bases), turn):
                    rate, us = drain(bases[at], size.jobs, pids[at])
                    made[at].ours.append(rate)
                    used[at].append(us)
                    rate, us = bare_drain(bases[at], clients, count, size.jobs)
                    made[at].bare.append(rate)
                    used_bare[at].append(us)
        for row, us_each, us_bare in zip(made, used, used_bare, strict=True):
            row.note = f"CPU {statistics.median(us_each):.0f} µs a job, bare {statistics.median(us_bare):.0f}"
        rows += _beside(made)
        say(f"drain, {count} workers: ratio {made[0].ratio:.2f}; {made[-1].note}")
    return rows


def pick_ups(bases: Sequence[Base], commit_ms: float, size: Size, say: Say) -> list[Row]:
    """From the return of an enqueue to the begin of its handler, on an idle queue, beside the time of a commit; in turns of twenty."""
    took: list[list[float]] = [[] for _ in bases]
    with ExitStack() as stack:
        for base in bases:
            stack.enter_context(workers(base, 1))
            pick_ups_ms(base, 5)
        for turn in range(max(1, size.pick_ups // PICK_UPS_A_TURN)):
            for at in _turns(len(bases), turn):
                took[at] += pick_ups_ms(bases[at], PICK_UPS_A_TURN)
    rows = []
    for share in (50, 95):
        made = []
        for base, each in zip(bases, map(sorted, took), strict=True):
            value = each[min(len(each) - 1, len(each) * share // 100)]
            made.append(Row("pick-up", _named(f"p{share} of {len(each)}", base), "ms", [value], [commit_ms], "bare: one commit"))
        rows += _beside(made)
    for base, each in zip(bases, took, strict=True):
        say(f"pick-up, {base.name}: p50 {statistics.median(each):.2f} ms, commit {commit_ms:.2f} ms")
    return rows


def churns(ours: Sequence[Base], bare: Sequence[Base], clients: Clients, size: Size, say: Say) -> list[Row]:
    """Churn in two databases of the same server, in turns of ten thousand jobs: under the open REPEATABLE READ transaction of another
    session in the second, under none in the first; 2 workers, and the bare loop in two databases of its own."""
    rows = []
    with ExitStack() as stack:
        for base in ours:
            stack.enter_context(workers(base, 2))
            drain(base, size.churn // TURNS)
        for base in (ours[1], bare[1]):
            conn = stack.enter_context(base.connection())
            conn.execute("begin isolation level repeatable read")
            conn.execute("select count(*) from tidemill.queues").fetchone()
        for step in range(1, 5):
            clean, held = Row("held snapshot", ""), Row("held snapshot", f"after {step * size.churn:,} jobs under it")
            for turn in range(TURNS):
                for at in _turns(2, turn):
                    row = (clean, held)[at]
                    row.ours.append(drain(ours[at], size.churn // TURNS)[0])
                    row.bare.append(bare_drain(bare[at], clients, 2, size.churn // TURNS)[0])
            kept, kept_bare = _rate(held.ours) / _rate(clean.ours), _rate(held.bare) / _rate(clean.bare)
            held.note = f"{kept:.0%} of {_rate(clean.ours):,.0f} without it (bare {kept_bare:.0%})"
            held.of_clean = kept
            rows.append(held)
            say(f"held snapshot, {step * size.churn:,} jobs: {held.note}")
    return rows


def _rate(turns: Sequence[float]) -> float:
    """Of turns with as many jobs each: all jobs over all their time."""
    return len(turns) / sum(1 / rate for rate in turns)


def _turns(count: int, turn: int) -> list[int]:
    """Places 0 to count - 1, every other time backwards, so that none always comes first."""
    return list(range(count))[:: -1 if turn % 2 else 1]


def _beside(made: Sequence[Row]) -> list[Row]:
    """Rows of one measurement on the empty database and on fuller ones; says what of the empty one's figure each keeps, by turns."""
    clean = made[0]
    for row in made[1:]:
        parts = [(c / f if row.unit == "ms" else f / c) for f, c in zip(row.ours, clean.ours, strict=True)]
        row.of_clean = statistics.median(parts)
        row.note = "; ".join([note for note in (row.note, f"{row.of_clean:.0%} of the figure without the others") if note])
    return list(made)


def bare_drain(base: Base, clients: Clients, count: int, jobs: int) -> tuple[float, float]:
    """The ceiling, as `drain` tells it: its jobs are inserted by the bare insert while the workers of ours stay paused."""
    base.pause(True)
    for _ in range(0, jobs, 1_000):
        clients.run("insert", 1, dsn=base.dsn, per_call=1_000, secs=0.0)
    return cpu.per_job_us([base.server_pid, *clients.pids], jobs, lambda: clients.run("fused", count, dsn=base.dsn, batch=BATCH))


def _named(what: str, base: Base) -> str:
    return what if not base.others else f"{what}, beside {base.others:,} scheduled and {base.others:,} finished"
