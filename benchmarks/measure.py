"""The measurements. Each takes turns with its ceiling, so that both meet the same machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import cpu
from benchmarks.clients import Clients
from benchmarks.results import Row
from benchmarks.rig import Base
from benchmarks.workers import drain, pick_ups_ms, workers

Say = Callable[[str], None]
BATCH = 500
"""What the runner claims at most at once; the bare loops take the same."""


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
            for _ in range(size.runs):
                for base in bases:
                    options = {"dsn": base.dsn, "per_call": per_call, "secs": size.secs}
                    row = made[base.name]
                    row.ours.append(clients.run("enqueue", count, **options))
                    row.bare.append(clients.run("insert", count, **options))
                    if base is bases[0]:
                        inside.ours.append(clients.run("in_transaction", count, **options))
                        inside.bare.append(row.bare[-1])
            rows += [*made.values(), inside]
            say(f"enqueue, {per_call:,} per call, {count} clients: ratio {rows[-2].ratio:.2f}")
    return rows


def drains(bases: Sequence[Base], clients: Clients, size: Size, say: Say) -> list[Row]:
    """A backlog of no-op jobs with 1 and 2 worker processes, and the bare loop in as many."""
    rows = []
    for count in (1, 2):
        for base in bases:
            row = Row("drain", _named(f"{size.jobs:,} jobs, {count} worker{'s' * (count > 1)}", base))
            with workers(base, count) as pids:
                drain(base, size.jobs)  # plans, caches, threads
                used, used_bare = [], []
                for _ in range(size.runs):
                    rate, us = drain(base, size.jobs, pids)
                    row.ours.append(rate)
                    used.append(us)
                    rate, us = bare_drain(base, clients, count, size.jobs)
                    row.bare.append(rate)
                    used_bare.append(us)
            row.note = f"CPU {statistics.median(used):.0f} µs a job, bare {statistics.median(used_bare):.0f}"
            rows.append(row)
            say(f"drain, {count} workers, {base.name}: ratio {row.ratio:.2f}")
    return rows


def pick_ups(bases: Sequence[Base], commit_ms: float, size: Size, say: Say) -> list[Row]:
    """From the return of an enqueue to the begin of its handler, on an idle queue, beside the time of a commit."""
    rows = []
    for base in bases:
        with workers(base, 1):
            pick_ups_ms(base, 5)
            took = sorted(pick_ups_ms(base, size.pick_ups))
        for share in (50, 95):
            value = took[min(len(took) - 1, len(took) * share // 100)]
            rows.append(Row("pick-up", _named(f"p{share} of {len(took)}", base), "ms", [value], [commit_ms], "bare: one commit"))
        say(f"pick-up, {base.name}: p50 {statistics.median(took):.2f} ms, commit {commit_ms:.2f} ms")
    return rows


def churns(ours: Base, bare: Base, clients: Clients, size: Size, say: Say) -> list[Row]:
    """Rounds of churn without and then under an open REPEATABLE READ transaction in each of two databases, 2 workers."""
    rows = [Row("held snapshot", f"{size.churn:,} jobs, clean")]
    with workers(ours, 2), ours.connection() as one, bare.connection() as other:
        drain(ours, size.churn // 5)
        for _ in range(2):
            _round(rows[0], ours, bare, clients, size)
        for conn in (one, other):
            conn.execute("begin isolation level repeatable read")
            conn.execute("select count(*) from tidemill.queues").fetchone()
        for step in range(1, 5):
            rows.append(Row("held snapshot", f"after {step * size.churn:,} jobs under it"))
            _round(rows[-1], ours, bare, clients, size)
            kept, kept_bare = rows[-1].ours[0] / statistics.median(rows[0].ours), rows[-1].bare[0] / statistics.median(rows[0].bare)
            rows[-1].note = f"{kept:.0%} of clean (bare {kept_bare:.0%})"
            say(f"held snapshot, {step * size.churn:,} jobs: {rows[-1].note}")
        for conn in (one, other):
            conn.execute("rollback")
    return rows


def bare_drain(base: Base, clients: Clients, count: int, jobs: int) -> tuple[float, float]:
    """The ceiling, as `drain` tells it: its jobs are inserted by the bare insert while the workers of ours stay paused."""
    base.pause(True)
    for _ in range(0, jobs, 1_000):
        clients.run("insert", 1, dsn=base.dsn, per_call=1_000, secs=0.0)
    return cpu.per_job_us([base.server_pid, *clients.pids], jobs, lambda: clients.run("fused", count, dsn=base.dsn, batch=BATCH))


def _round(row: Row, ours: Base, bare: Base, clients: Clients, size: Size) -> None:
    row.ours.append(drain(ours, size.churn)[0])
    row.bare.append(bare_drain(bare, clients, 2, size.churn)[0])


def _named(what: str, base: Base) -> str:
    return what if not base.others else f"{what}, beside {base.others:,} scheduled and {base.others:,} finished"
