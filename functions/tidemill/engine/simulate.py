"""Simulate: what a queue's last hour would have looked like under other rules. Reads, computes, changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import median_low
from typing import NamedTuple, Protocol

from tidemill.domain.simulation import Arrival, Outcome, Rate, Rules, most_at_once, simulate

ENDED, WAITING = 8_000, 2_000
PLACES = 10_000


class Recorded(NamedTuple):
    """An attempt of the last hour, or (started_at and run_ms None) a job that still waits."""

    due_at: datetime
    started_at: datetime | None
    run_ms: int | None
    partition_key: str
    job_type: str
    priority: int
    cost: int
    rate_class: str | None
    concurrency_key: str | None
    concurrency_limit: int | None


@dataclass(frozen=True, slots=True)
class Proposal:
    """Rules instead of today's; None keeps. `rates`: class → (limit, window_ms, burst)."""

    workers: int | None = None
    max_concurrency: int | None = None
    lifts_max_concurrency: bool = False
    weights: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)


class CurrentRules(NamedTuple):
    """The rules that the queue is served by."""

    max_concurrency: int | None
    weights: Mapping[str, int]
    limits: Mapping[str, int]
    rates: Mapping[str, tuple[int, int, int]]


class SimulateStore(Protocol):
    """Reads what a simulation starts from."""

    def recorded(self, queue_id: str, *, ended: int, waiting: int) -> list[Recorded]:
        """At most so many ended attempts (the newest) and waiting jobs (the oldest)."""

    def current_rules(self, project_id: str, queue_id: str) -> CurrentRules:
        """The rules now."""

    def live_workers(self, project_id: str, *, queue: str | None = None) -> tuple[int, int]:
        """(live workers that serve the queue, jobs that they can run at once)."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs: places, and per job in the order of `Simulated.jobs` the wait in ms (None: never begun)."""

    places: int
    waits_ms: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Simulated:
    """The same jobs under today's rules and under the proposed ones. `is_whole`: the hour had no more than could be read."""

    jobs: Sequence[Arrival]
    window_ms: int
    is_whole: bool
    now: Side
    proposed: Side


def run(store: SimulateStore, project_id: str, queue: str, queue_id: str, proposal: Proposal) -> Simulated:
    """Both runs over the last hour's attempts and what still waits. A job that waits is taken to run as long as the middle one of its type.

    Places: what is proposed, else what the live workers have, else as many as ran at once at most.
    """
    rows = store.recorded(queue_id, ended=ENDED, waiting=WAITING)
    rules = store.current_rules(project_id, queue_id)
    began = min((row.due_at for row in rows), default=None)
    jobs = _arrivals(rows, began)
    spans = [(row.started_at.timestamp(), row.started_at.timestamp() + (row.run_ms or 0) / 1000) for row in rows if row.started_at]
    slots = store.live_workers(project_id, queue=queue)[1] or most_at_once(spans) or 1
    most = proposal.max_concurrency if proposal.max_concurrency is not None or proposal.lifts_max_concurrency else rules.max_concurrency
    today = _rules(slots, rules.max_concurrency, rules.weights, rules.limits, rules.rates)
    other = _rules(
        proposal.workers or slots,
        most,
        {**rules.weights, **proposal.weights},
        {**rules.limits, **proposal.limits},
        {**rules.rates, **proposal.rates},
    )
    ended = sum(row.started_at is not None for row in rows)
    window = max((job.at_ms + job.run_ms for job in jobs), default=0.0)
    return Simulated(jobs, round(window), ended < ENDED and len(rows) - ended < WAITING, _side(jobs, today), _side(jobs, other))


def _rules(
    slots: int, most: int | None, weights: Mapping[str, int], limits: Mapping[str, int], rates: Mapping[str, tuple[int, int, int]]
) -> Rules:
    buckets = {name: Rate(limit, window_ms, burst) for name, (limit, window_ms, burst) in rates.items()}
    return Rules(min(slots, PLACES) if most is None else min(slots, most, PLACES), weights, limits, buckets)


def _side(jobs: Sequence[Arrival], rules: Rules) -> Side:
    outcome = simulate(jobs, rules) if rules.places > 0 else Outcome([None] * len(jobs))
    waits = [None if start is None else start - job.at_ms for job, start in zip(jobs, outcome.starts_ms, strict=True)]
    return Side(rules.places, waits)


def _arrivals(rows: Sequence[Recorded], began: datetime | None) -> list[Arrival]:
    if began is None:
        return []
    by_type: dict[str, list[int]] = {}
    for row in rows:
        if row.run_ms is not None:
            by_type.setdefault(row.job_type, []).append(row.run_ms)
    usual = {name: median_low(values) for name, values in by_type.items()}
    others = median_low([value for values in by_type.values() for value in values]) if by_type else 0
    blank = Arrival(0, 0)
    return [
        replace(
            blank,
            at_ms=(row.due_at - began).total_seconds() * 1000,
            run_ms=max(1, row.run_ms if row.run_ms is not None else usual.get(row.job_type, others)),
            partition=row.partition_key,
            job_type=row.job_type,
            priority=row.priority,
            cost=row.cost,
            rate_class=row.rate_class,
            limit_key=row.concurrency_key,
            limit=row.concurrency_limit,
        )
        for row in rows
    ]
