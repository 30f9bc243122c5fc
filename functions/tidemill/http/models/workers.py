"""Workers and leases: what a worker sends, and what it gets."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.http.fields import CLOSED, BigInt, DelayMs, Id, Instant, JobTypes, LeaseMs, Load, QueueNames, WaitMs
from tidemill.http.models.jobs import State


@with_config(CLOSED)
class RegisterIn(TypedDict, total=False):
    """Who a worker is. Text that cannot be stored is replaced, not refused."""

    name: Required[Annotated[str, Field(min_length=1, max_length=200)]]
    hostname: Annotated[str, Field(max_length=255)]
    pid: BigInt | None
    version: Annotated[str, Field(max_length=100)]
    queues: Required[QueueNames]
    job_types: JobTypes | None
    max_concurrency: Annotated[int, Field(ge=1, le=10_000)]
    lease_ms: LeaseMs


class Registered(TypedDict):
    """The worker's id and rhythm."""

    worker_id: Id
    heartbeat_interval_ms: int
    lease_ms: int


@with_config(CLOSED)
class LeaseIn(TypedDict):
    """A lease by its token."""

    job_id: Id
    lease_token: Id


@with_config(CLOSED)
class HeartbeatIn(TypedDict, total=False):
    """A sign of life: extends every lease by its own length from now. There is no way to ask for another length."""

    leases: Annotated[list[LeaseIn], Field(max_length=limits.HEARTBEAT_LEASES)]
    active_job_count: Annotated[int, Field(ge=0, le=limits.INT32[1])]
    cpu_percent: Load | None
    memory_mb: Load | None
    status: Literal["running", "quiet", "draining", "stopped"] | None


class LeaseEnd(TypedDict):
    """When a lease ends now."""

    job_id: Id
    lease_expires_at: Instant


class HeartbeatOut(TypedDict):
    """What the worker has to know."""

    command: Literal["quiet", "resume", "restart", "terminate"] | None
    cancel: list[Id]
    lost: list[Id]
    leases: list[LeaseEnd]


@with_config(CLOSED)
class ClaimIn(TypedDict, total=False):
    """Which jobs are wanted. `lease_ms` null: each queue's own. `wait_ms`: how long to wait for the first."""

    worker_id: Required[Id]
    queues: Required[QueueNames]
    limit: Annotated[int, Field(ge=limits.CLAIM_JOBS[0], le=limits.CLAIM_JOBS[1])]
    job_types: JobTypes | None
    lease_ms: LeaseMs | None
    start: bool
    wait_ms: WaitMs


@with_config(CLOSED)
class ExchangeClaimIn(TypedDict, total=False):
    """A claim within an exchange; the worker is the exchange's."""

    worker_id: Id
    queues: Required[QueueNames]
    limit: Annotated[int, Field(ge=limits.CLAIM_JOBS[0], le=limits.CLAIM_JOBS[1])]
    job_types: JobTypes | None
    lease_ms: LeaseMs | None
    start: bool
    wait_ms: WaitMs


class ClaimedJob(TypedDict):
    """All that a handler needs."""

    id: Id
    job_type: str
    queue: str
    payload: Any
    schema_version: int | None
    headers: dict[str, str]
    attempt: int
    max_attempts: int
    fence: int
    lease_token: Id
    lease_expires_at: Instant
    timeout_ms: int | None
    checkpoint: Any
    traceparent: str | None
    tracestate: str | None
    priority: int
    run_at: Instant


class Claimed(TypedDict):
    """Jobs in the order of API.md §3."""

    jobs: list[ClaimedJob]


AckError = TypedDict("AckError", {"class": str, "message": str, "stack": str | None}, total=False)


@with_config(CLOSED)
class AckIn(TypedDict, total=False):
    """How an attempt ended. Checked one by one: a faulty item answers `error` and the others count."""

    job_id: Required[Id]
    lease_token: Required[Id]
    outcome: Required[Literal["complete", "fail", "snooze", "release", "cancelled", "crash"]]
    result: Any
    error: AckError
    retryable: bool
    retry_delay_ms: DelayMs | None
    throttle_ms: DelayMs | None
    exit_code: Annotated[int, Field(ge=limits.INT32[0], le=2**32 - 1)] | None
    delay_ms: DelayMs


@with_config(CLOSED)
class AcksIn(TypedDict):
    """At most 500 reports."""

    acks: Annotated[list[Any], Field(max_length=limits.ACKS)]


class AcksDocument(TypedDict):
    """At most 500 reports."""

    acks: Annotated[list[AckIn], Field(max_length=limits.ACKS)]


class AckResult(TypedDict):
    """`ok` with the job's state (and `payload_too_large` if its result was left out), `lease_lost`, or `error` with a code."""

    job_id: str
    status: Literal["ok", "lease_lost", "error"]
    state: State | None
    code: str | None
    msg: NotRequired[str]


class AcksOut(TypedDict):
    """One result per report, in order."""

    results: list[AckResult]


@with_config(CLOSED)
class ExchangeIn(TypedDict, total=False):
    """Heartbeat, reports and claim in one transaction; each part may be left out."""

    worker_id: Required[Id]
    heartbeat: HeartbeatIn | None
    acks: Annotated[list[Any], Field(max_length=limits.ACKS)] | None
    claim: ExchangeClaimIn | None


class ExchangeOut(TypedDict):
    """What the parts answer."""

    heartbeat: HeartbeatOut | None
    acks: list[AckResult]
    jobs: list[ClaimedJob]
