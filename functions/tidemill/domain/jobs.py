"""What passes between workers, engine and store.

Ids are lower-case UUID text; instants are aware; JSON stays text until somebody needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from tidemill.domain.backoff import RetryPolicy
from tidemill.domain.transitions import Event, Transition

Command = Literal["quiet", "resume", "restart", "terminate"]
WorkerStatus = Literal["running", "quiet", "draining", "stopped"]


class Enqueued(NamedTuple):
    """What became of one given job, by its position in the call: created, answered by another (`deduplicated`), or refused (`code`)."""

    position: int
    job_id: str | None
    state: str | None
    deduplicated: bool
    code: str | None
    field: str | None
    message: str | None


class ClaimedJob(NamedTuple):
    """All that a handler needs. `payload`, `headers` and `checkpoint` are JSON text (or None)."""

    job_id: str
    lease_token: str
    job_type: str
    queue: str
    payload: str
    schema_version: int | None
    headers: str | None
    attempt: int
    max_attempts: int
    fence: int
    lease_expires_at: datetime
    timeout_ms: int | None
    checkpoint: str | None
    traceparent: str | None
    tracestate: str | None
    queue_id: str
    priority: int
    run_at: datetime


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """Which jobs a worker asks for. `lease_ms` None: each queue's visibility timeout."""

    project_id: str
    worker_id: str
    queues: Sequence[str]
    limit: int
    job_types: Sequence[str] | None = None
    lease_ms: int | None = None
    start: bool = True


class Lease(NamedTuple):
    """A job and the token that proves who works on it."""

    job_id: str
    lease_token: str


class LeaseBeat(NamedTuple):
    """A lease that is still ours: its end now, and whether its job was asked to stop."""

    job_id: str
    lease_expires_at: datetime
    cancel_requested: bool


class Leased(NamedTuple):
    """A leased job as `decide` sees it."""

    lease: Lease
    attempt: int
    max_attempts: int
    cancel_requested: bool
    crash_count: int
    policy: RetryPolicy
    has_rate_class: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed. Text is clean and clipped to 8 KiB each."""

    error_class: str
    message: str
    stack: str | None = None


class Ack(NamedTuple):
    """A worker's report that an attempt has ended. `result` is JSON text; delays in ms; `digest` tells a repeat from a contradiction.

    A tuple, because one is made for every job and a frozen dataclass costs four times as much.
    """

    job_id: str
    lease_token: str
    event: Event
    digest: int
    result: str | None = None
    failure: Failure | None = None
    retryable: bool = True
    retry_delay_ms: int | None = None
    delay_ms: int = 0
    exit_code: int | None = None
    throttle_ms: int | None = None


class AckResult(NamedTuple):
    """What became of one ack: `ok` with the job's state, `lease_lost` or `error` with a code."""

    job_id: str
    status: Literal["ok", "lease_lost", "error"]
    state: str | None
    code: str | None


@dataclass(frozen=True, slots=True)
class Move:
    """A decided transition of one leased job with what the history keeps of the attempt."""

    lease: Lease
    transition: Transition
    failure: Failure | None = None
    exit_code: int | None = None
    digest: int | None = None
    fingerprint: str | None = None


class BatchCount(NamedTuple):
    """A batch's counters and callbacks, under its lock."""

    batch_id: str
    project_id: str
    status: str
    total: int
    completed: int
    failed: int
    cancelled: int
    callbacks: Mapping[str, Any]
    fired: Sequence[str]


class Batch(NamedTuple):
    """A batch as it stands. `callbacks`: job objects by name; `fired`: those that were created; `error`: why one was not."""

    id: str
    name: str
    status: str
    total: int
    completed: int
    failed: int
    cancelled: int
    callbacks: Mapping[str, Any]
    fired: Sequence[str]
    error: str | None
    created_at: datetime
    sealed_at: datetime | None
    finalized_at: datetime | None


class ParentResult(NamedTuple):
    """How a parent stands (None once it is gone), and what it returned (JSON text)."""

    job_id: str
    state: str | None
    result: str | None


class ChildMoved(NamedTuple):
    """A child that a parent's end reached."""

    job_id: str
    traits: int
    cancelled: bool


class Deleted(NamedTuple):
    """A job that was deleted: whether others depend on it, its batch, and the batch counter it stood in (None: pending)."""

    job_id: str
    has_children: bool
    batch_id: str | None
    outcome: str | None


class Ended(NamedTuple):
    """An attempt that has ended already: its ack's digest and its job's state now."""

    job_id: str
    lease_token: str
    digest: int | None
    state: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A worker's sign of life. Memory in MB."""

    leases: Sequence[Lease] = ()
    active_job_count: int = 0
    cpu_percent: float | None = None
    memory_mb: float | None = None
    status: WorkerStatus | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """What the worker has to know: a command, jobs asked to stop, leases that are lost, and the others' ends."""

    command: Command | None = None
    cancel: Sequence[str] = ()
    lost: Sequence[str] = ()
    leases: Sequence[LeaseBeat] = ()


@dataclass(frozen=True, slots=True)
class Registration:
    """Who a worker is."""

    name: str
    queues: Sequence[str]
    hostname: str = ""
    pid: int | None = None
    version: str = ""
    job_types: Sequence[str] | None = None
    max_concurrency: int = 1
    lease_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Registered:
    """A worker's id and rhythm, in ms."""

    worker_id: str
    heartbeat_interval_ms: int
    lease_ms: int


class LogLine(NamedTuple):
    """A line of a job's log."""

    ts: datetime
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class Edit:
    """What PATCH changes; None keeps. `payload` is JSON text."""

    payload: str | None = None
    priority: int | None = None
    tags: Sequence[str] | None = None
    schema_version: int | None = None


@dataclass(slots=True)
class PhaseReport:
    """What one phase of a scheduler pass did: rows by kind, or the kind of error that ended it. Durations in ms."""

    name: str
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    duration_ms: int = 0
    backlog: bool = False


JobSpec = Mapping[str, Any]
