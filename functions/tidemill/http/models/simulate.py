"""What a simulation takes and answers."""

from __future__ import annotations

from typing import Annotated, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.http.fields import CLOSED, Key, Name

Weight = Annotated[int, Field(ge=limits.WEIGHT[0], le=limits.WEIGHT[1])]
Places = Annotated[int, Field(ge=1, le=10_000)]


@with_config(CLOSED)
class RateIn(TypedDict, total=False):
    """A token bucket; `burst` is `limit` unless given."""

    limit: Required[Annotated[int, Field(ge=1, le=1_000_000_000)]]
    window_ms: Required[Annotated[int, Field(ge=1, le=2_678_400_000)]]
    burst: Annotated[int, Field(ge=1, le=1_000_000_000)]


@with_config(CLOSED)
class SimulateIn(TypedDict, total=False):
    """Rules instead of today's; what is left out stays. `workers`: jobs that all can run at once. `limits`: running jobs by type."""

    workers: Places
    max_concurrency: Annotated[int, Field(ge=0, le=limits.CONCURRENCY[1])] | None
    weights: Annotated[dict[Key, Weight], Field(max_length=1_000)]
    limits: Annotated[dict[Name, Annotated[int, Field(ge=0, le=limits.CONCURRENCY[1])]], Field(max_length=1_000)]
    rates: Annotated[dict[Name, RateIn], Field(max_length=1_000)]


class PartitionWaits(TypedDict):
    """Waits of a partition's jobs; `unstarted`: those that would not have begun."""

    partition_key: str
    jobs: int
    unstarted: int
    wait_p50_ms: int | None
    wait_p95_ms: int | None


class SideOut(TypedDict):
    """One set of rules. `places`: jobs at once, after max_concurrency. `partitions`: the 200 with the most jobs."""

    places: int
    jobs: int
    unstarted: int
    wait_p50_ms: int | None
    wait_p95_ms: int | None
    total_wait_ms: int
    partitions: list[PartitionWaits]


class SimulateAnswer(TypedDict):
    """The same jobs under today's rules and under the proposed ones. `approximate`: the hour had more than the 10,000 jobs looked at."""

    window_ms: int
    approximate: bool
    now: SideOut
    proposed: SideOut
