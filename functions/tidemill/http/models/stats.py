"""What the statistics answer."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain.webhooks import Status
from tidemill.http.fields import CLOSED, Instant, Name
from tidemill.http.queries import Page, Whole


class Count(TypedDict):
    """A bounded count. `approximate`: the true number is this or larger, or was this when it was last sampled."""

    count: int
    approximate: bool


class States(TypedDict):
    """Jobs by state."""

    pending: Count
    scheduled: Count
    queued: Count
    claimed: Count
    running: Count
    completed: Count
    cancelled: Count
    dead_letter: Count
    quarantined: Count


class QueueBacklog(TypedDict):
    """What stands in a queue. Rates per second over the last four to five counted minutes."""

    name: str
    is_paused: bool
    queued: Count
    scheduled: Count
    claimed: int
    running: int
    dead_letter: Count
    oldest_queued_age_ms: int | None
    arrived_per_second: float
    completed_per_second: float


class Throughput(TypedDict):
    """Rates over the last four to five minutes that are counted."""

    arrived_per_second: float
    completed_per_second: float


class WebhookStanding(TypedDict):
    """Whether calls of the error webhook arrive. `failing_since`: a call used up its attempts and none has arrived since."""

    status: Status
    failing_since: Instant | None


class Overview(TypedDict):
    """A project at a glance. `queues`: the first 200 by name. `webhook`: null if there is none. `counted_until`: up to when rates and
    failures are counted.
    """

    states: States
    live_workers: int
    worker_slots: int
    oldest_queued_age_ms: int | None
    failures_1h: int
    dead_1h: int
    throughput: Throughput
    paused_queues: list[str]
    queues: list[QueueBacklog]
    webhook: WebhookStanding | None
    counted_until: Instant | None


@with_config(CLOSED)
class HistoryQuery(TypedDict):
    """`since`: by default 60 buckets ago. Buckets of whole minutes; of whole hours beyond 48 hours."""

    queue: NotRequired[Name]
    since: NotRequired[Instant]
    bucket_ms: NotRequired[Annotated[int, Whole, Field(ge=60_000, le=86_400_000)]]


class Bucket(TypedDict):
    """What happened in [at, at + bucket_ms)."""

    at: Instant
    arrived: int
    completed: int
    failed: int
    dead: int


class History(TypedDict):
    """Buckets in order, without gaps. `approximate`: there was more than could be read."""

    bucket_ms: int
    buckets: list[Bucket]
    counted_until: Instant | None
    approximate: bool


@with_config(CLOSED)
class LatencyQuery(TypedDict):
    """`window_ms`: how far back, in steps of five minutes; by default an hour."""

    queue: NotRequired[Name]
    window_ms: NotRequired[Annotated[int, Whole, Field(ge=60_000, le=86_400_000)]]


class Quantiles(TypedDict):
    """Milliseconds, within 9 %; null if nothing was counted."""

    count: int
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None


class Latency(TypedDict):
    """Of attempts that ended in the window: from due to begun, and from begun to ended."""

    since: Instant
    queue_wait: Quantiles
    run_time: Quantiles


class JobType(TypedDict):
    """A job type that the project has used."""

    name: str
    first_seen_at: Instant
    last_seen_at: Instant


class JobTypesPage(TypedDict):
    """A page of job types by name."""

    items: list[JobType]
    next_cursor: str | None


class QuietGroup(TypedDict):
    """The queue without its noisy partitions: those with over 100 waiting jobs and over ten times the median of their weight's share."""

    partitions: int
    noisy: list[str]
    queued: Count
    running: int
    oldest_queued_age_ms: int | None


class QueueStates(TypedDict):
    """A queue's jobs by state."""

    pending: Count
    scheduled: Count
    queued: Count
    claimed: Count
    running: Count
    dead_letter: Count


class QueueStats(TypedDict):
    """A queue at a glance. `drained_per_second`: completed or dead. `time_to_drain_ms`: null while as much arrives as leaves, or more."""

    name: str
    is_paused: bool
    states: QueueStates
    arrived_per_second: float
    drained_per_second: float
    time_to_drain_ms: int | None
    oldest_queued_age_ms: int | None
    failures_1h: int
    dead_1h: int
    live_workers: int
    worker_slots: int
    quiet: QuietGroup
    memory_estimate_bytes: int | None
    sampled_at: Instant | None
    counted_until: Instant | None


@with_config(CLOSED)
class PartitionIn(TypedDict):
    """What a partition can be told."""

    weight: Annotated[int, Field(ge=1, le=1_000_000)]


class Partition(TypedDict):
    """A partition; jobs without a key are ''. `waiting`: due. `share`: of the queue's service while those that wait now do, by weight."""

    partition_key: str
    waiting: Count
    running: int
    weight: int
    share: float
    virtual_time: float
    oldest_queued_age_ms: int | None


class PartitionsPage(TypedDict):
    """A page of partitions by key."""

    items: list[Partition]
    next_cursor: str | None


JobTypesQuery = Page
