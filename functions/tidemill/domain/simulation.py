"""What would have happened: a queue's recorded arrivals served under other rules, as the claim serves them.

A place that is free takes a job at once if any may run: of the partitions with work the one with the smallest virtual finish time
(weighted fair queueing, Demers et al. 1989), of its jobs the highest priority, then the one that waits longest. Limits count running
jobs, rate classes are token buckets that start full. Run times are those that were recorded.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

STEPS: Final = 2_000_000
"""Partitions and lanes looked at, after which the rest counts as not begun: a bound on the time, a second or two."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job: when it was due and for how long it runs (ms), and what decides about it. `cost` is the job's weight."""

    at_ms: float
    run_ms: float
    partition: str = ""
    job_type: str = ""
    priority: int = 0
    cost: int = 1
    rate_class: str | None = None
    limit_key: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """A token bucket: `limit` tokens per `window_ms`, at most `burst`. A limit of 0 lets nothing pass: the class is paused."""

    limit: float
    window_ms: float
    burst: float


@dataclass(frozen=True, slots=True)
class Rules:
    """places: jobs at once. weights: of partitions (1 where none is given). limits: of running jobs by type. rates: by class."""

    places: int
    weights: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, Rate] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """Per job, in the order given: when it began (None: never, or not within STEPS). `busy_ms`: time of all places together."""

    starts_ms: list[float | None]
    busy_ms: float = 0.0
    most_running: int = 0


Lane = tuple[str, str | None, str | None]
Head = tuple[int, float, int]


class _Bucket:
    def __init__(self, rate: Rate, at_ms: float) -> None:
        self.rate, self.tokens, self.at_ms = rate, rate.burst, at_ms

    def at(self, now: float) -> float:
        gained = (now - self.at_ms) * self.rate.limit / self.rate.window_ms
        return min(self.rate.burst, self.tokens + gained)

    def ready_at(self, cost: float, now: float) -> float:
        """From when on the job may pass; one dearer than the bucket passes when it is full."""
        if self.rate.limit <= 0:
            return float("inf")
        missing = min(cost, self.rate.burst) - self.at(now)
        return now if missing <= 1e-9 else now + missing * self.rate.window_ms / self.rate.limit

    def spend(self, cost: float, now: float) -> None:
        self.tokens, self.at_ms = self.at(now) - cost, now


class _Queue:
    """The state of a run. Lanes hold what passes or fails the same gates, so that a blocked lane is looked at once."""

    def __init__(self, jobs: list[Arrival], rules: Rules) -> None:
        self.jobs, self.rules = jobs, rules
        begin = min((job.at_ms for job in jobs), default=0.0)
        self.buckets = {name: _Bucket(rate, begin) for name, rate in rules.rates.items()}
        self.lanes: dict[str, dict[Lane, list[Head]]] = {}
        self.turns: list[tuple[float, str]] = []
        self.finish: dict[str, float] = {}
        self.clock = 0.0
        self.of_type: dict[str, int] = {}
        self.of_key: dict[str, int] = {}
        self.steps = 0

    def arrive(self, place: int) -> None:
        job = self.jobs[place]
        lanes = self.lanes.setdefault(job.partition, {})
        if not lanes:
            self.finish[job.partition] = max(self.finish.get(job.partition, 0.0), self.clock)
            heapq.heappush(self.turns, (self.finish[job.partition], job.partition))
        heapq.heappush(lanes.setdefault((job.job_type, job.limit_key, job.rate_class), []), (-job.priority, job.at_ms, place))

    def take(self, now: float) -> tuple[int | None, float]:
        """The job whose turn it is, or None; and when a rate may let another one pass (inf: never by itself)."""
        aside: list[tuple[float, str]] = []
        found, wake = None, float("inf")
        while self.turns and found is None and self.steps < STEPS:
            turn, partition = heapq.heappop(self.turns)
            found, at = self._of(partition, now)
            wake = min(wake, at)
            if found is None:
                aside.append((turn, partition))
                continue
            job = self.jobs[found]
            self.clock = max(self.clock, turn)
            self.finish[partition] = turn + job.cost / self.rules.weights.get(partition, 1)
            if self.lanes[partition]:
                heapq.heappush(self.turns, (self.finish[partition], partition))
        for entry in aside:
            heapq.heappush(self.turns, entry)
        return found, wake

    def _of(self, partition: str, now: float) -> tuple[int | None, float]:
        lanes, best, wake = self.lanes[partition], None, float("inf")
        for lane, heads in lanes.items():
            self.steps += 1
            at = self._ready_at(self.jobs[heads[0][2]], now)
            if at > now:
                wake = min(wake, at)
            elif best is None or heads[0] < lanes[best][0]:
                best = lane
        if best is None:
            return None, wake
        place = heapq.heappop(lanes[best])[2]
        if not lanes[best]:
            del lanes[best]
        return place, wake

    def _ready_at(self, job: Arrival, now: float) -> float:
        limit = self.rules.limits.get(job.job_type)
        if limit is not None and self.of_type.get(job.job_type, 0) >= limit:
            return float("inf")
        if job.limit is not None and self.of_key.get(_key(job), 0) >= job.limit:
            return float("inf")
        bucket = self.buckets.get(job.rate_class) if job.rate_class is not None else None
        return bucket.ready_at(job.cost, now) if bucket else now

    def begin(self, place: int, now: float) -> None:
        job = self.jobs[place]
        self._count(job, 1)
        if job.rate_class in self.buckets:
            self.buckets[job.rate_class].spend(job.cost, now)

    def end(self, place: int) -> None:
        self._count(self.jobs[place], -1)

    def _count(self, job: Arrival, by: int) -> None:
        self.of_type[job.job_type] = self.of_type.get(job.job_type, 0) + by
        if job.limit is not None:
            self.of_key[_key(job)] = self.of_key.get(_key(job), 0) + by


def _key(job: Arrival) -> str:
    return f"{job.job_type}\x1f{job.limit_key or ''}"


def simulate(arrivals: Iterable[Arrival], rules: Rules) -> Outcome:
    """When each job begins under these rules."""
    jobs = list(arrivals)
    queue, outcome = _Queue(jobs, rules), Outcome([None] * len(jobs))
    coming = sorted(range(len(jobs)), key=lambda place: jobs[place].at_ms)
    running: list[tuple[float, int]] = []
    arrived, wake = 0, float("inf")
    while True:
        now = min(
            jobs[coming[arrived]].at_ms if arrived < len(coming) else float("inf"),
            running[0][0] if running else float("inf"),
            wake if len(running) < rules.places else float("inf"),
        )
        if now == float("inf") or queue.steps >= STEPS:
            return outcome
        while arrived < len(coming) and jobs[coming[arrived]].at_ms <= now:
            queue.arrive(coming[arrived])
            arrived += 1
        while running and running[0][0] <= now:
            queue.end(heapq.heappop(running)[1])
        wake = float("inf")
        while len(running) < rules.places:
            place, wake = queue.take(now)
            if place is None:
                break
            queue.begin(place, now)
            outcome.starts_ms[place] = now
            outcome.busy_ms += jobs[place].run_ms
            heapq.heappush(running, (now + jobs[place].run_ms, place))
            outcome.most_running = max(outcome.most_running, len(running))


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """How many of the (begin, end) overlapped at once."""
    edges = sorted(edge for begin, end in spans for edge in ((begin, 1), (max(end, begin + 1e-6), -1)))
    most = now = 0
    for _, change in edges:
        now += change
        most = max(most, now)
    return most
