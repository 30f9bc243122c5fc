"""Jobs: what creates one, and what one looks like."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, Required

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.http.fields import (
    CLOSED,
    BackoffMs,
    DelayMs,
    Id,
    Instant,
    Int32,
    Key,
    Label,
    MaxAttempts,
    Multiplier,
    Name,
    Priority,
    RetentionMs,
    Tags,
    TimeoutMs,
)
from tidemill.http.ids import id_of


@with_config(CLOSED)
class Unique(TypedDict, total=False):
    """One live job per key: the chosen payload fields (absent: the whole payload) within project and job type."""

    by: Annotated[list[Key], Field(min_length=1, max_length=100)] | None
    window: Literal["pending", "running", "ttl"] | None
    ttl_ms: Annotated[int, Field(ge=1, le=limits.DELAY_MS[1])] | None


@with_config(CLOSED)
class Concurrency(TypedDict, total=False):
    """At most `limit` claimed and running jobs of this type (and key)."""

    limit: Required[Annotated[int, Field(ge=limits.CONCURRENCY[0], le=limits.CONCURRENCY[1])]]
    key: Key | None
    by: Key | None


@with_config(CLOSED)
class InlinePolicy(TypedDict, total=False):
    """How retries wait; what is left out comes from the queue's default. `max_attempts` includes the first."""

    strategy: Literal["fixed", "linear", "exponential"]
    base_delay_ms: BackoffMs
    multiplier: Multiplier
    max_delay_ms: BackoffMs
    max_attempts: MaxAttempts
    jitter: bool


def _few_bytes(headers: dict[str, str]) -> dict[str, str]:
    size = sum(len(k.encode()) + len(v.encode()) for k, v in headers.items())
    if size > limits.HEADERS_BYTES:
        raise PydanticCustomError("headers_size", f"must be at most {limits.HEADERS_BYTES:,} bytes in all")
    return headers


Headers = Annotated[dict[Key, str], Field(max_length=limits.HEADERS), AfterValidator(_few_bytes)]


def _parent(given: Any) -> Any:
    if isinstance(given, str) and (found := id_of(given)) is not None:
        return found
    ref = given["ref"] if isinstance(given, dict) and given.keys() == {"ref"} else None
    if isinstance(ref, str) and 1 <= len(ref) <= limits.NAME_CHARS:
        return given
    raise PydanticCustomError("parent", 'must be a job id, or {"ref": "…"} for a job of the same call')


_PARENT_SHAPES: Final = [
    {"type": "string", "format": "uuid"},
    {"type": "object", "properties": {"ref": {"type": "string"}}, "required": ["ref"], "additionalProperties": False},
]
Parent = Annotated[Any, PlainValidator(_parent), WithJsonSchema({"anyOf": _PARENT_SHAPES})]
ParentFailure = Literal["cancel", "run", "hold"]


@with_config(CLOSED)
class JobFields(TypedDict, total=False):
    """A job to create; null stands for a field that is left out (but a payload may be null)."""

    job_type: Required[Name]
    queue: Name | None
    payload: Any
    schema_version: Int32 | None
    priority: Priority | None
    run_at: Instant | None
    delay_ms: DelayMs | None
    hold: bool | None
    idempotency_key: Key | None
    unique: Unique | None
    concurrency: Concurrency | None
    retry_policy: Name | InlinePolicy | None
    max_attempts: MaxAttempts | None
    timeout_ms: TimeoutMs | None
    partition_key: Key | None
    weight: Annotated[int, Field(ge=limits.WEIGHT[0], le=limits.WEIGHT[1])] | None
    rate_class: Name | None
    sticky_worker: Label | None
    tags: Tags | None
    headers: Headers | None
    traceparent: Annotated[str, Field(min_length=1, max_length=255)] | None
    tracestate: Annotated[str, Field(min_length=1, max_length=512)] | None
    retention_ms: RetentionMs | None
    ref: Label | None
    depends_on: Annotated[list[Parent], Field(max_length=limits.DEPENDS_ON)] | None
    on_parent_failure: ParentFailure | None
    batch_id: Id | None


def _consistent(job: dict[str, Any]) -> dict[str, Any]:
    """The fields that are given, if they agree with each other."""
    if None in job.values():
        job = {name: value for name, value in job.items() if value is not None or name == "payload"}
    if "delay_ms" in job and "run_at" in job:
        raise PydanticCustomError("one_of_two", "give run_at or delay_ms, not both")
    if (unique := job.get("unique")) is not None and (unique.get("window") == "ttl") != (unique.get("ttl_ms") is not None):
        raise PydanticCustomError("ttl", "unique: window ttl and ttl_ms go together")
    if (concurrency := job.get("concurrency")) is not None and concurrency.get("by") is not None and concurrency.get("key") is not None:
        raise PydanticCustomError("one_of_two", "concurrency: give key or by, not both")
    return job


JobIn = Annotated[JobFields, AfterValidator(_consistent)]


@with_config(CLOSED)
class BulkIn(TypedDict, total=False):
    """Many jobs. `atomic` (the default): all or nothing."""

    jobs: Required[Annotated[list[JobIn], Field(max_length=limits.BULK_JOBS)]]
    atomic: bool


State = Literal["pending", "scheduled", "queued", "claimed", "running", "completed", "cancelled", "dead_letter", "quarantined"]


class Lease(TypedDict):
    """Who works on a job, and until when unless a heartbeat extends it."""

    worker_id: Id | None
    claimed_at: Instant
    started_at: Instant | None
    lease_expires_at: Instant
    cancel_requested_at: Instant | None


class Progress(TypedDict):
    """How far a job says it is."""

    current: int | None
    total: int | None
    message: str | None


JobError = TypedDict("JobError", {"class": str | None, "message": str | None})


class HeldKey(TypedDict):
    """A unique key's window, and its end if it has one."""

    window: Literal["pending", "running", "ttl"]
    until: Instant | None


class LimitKey(TypedDict):
    """A job's own concurrency limit."""

    limit: int
    key: str | None


class Count(TypedDict):
    """How many; `approximate`: there may be more than were looked at."""

    count: int
    approximate: bool


class Job(TypedDict):
    """A job as lists show it. `actions`: what may be done with it in this state."""

    id: Id
    job_type: str
    queue: str
    state: State
    priority: int
    run_at: Instant
    attempt_count: int
    max_attempts: int
    fence: int
    schema_version: int | None
    is_held: bool
    idempotency_key: str | None
    unique: HeldKey | None
    concurrency: LimitKey | None
    retry_policy: str | dict[str, Any] | None
    timeout_ms: int | None
    partition_key: str | None
    weight: int
    rate_class: str | None
    sticky_worker: str | None
    fingerprint: str | None
    headers: dict[str, str]
    tags: list[str]
    principal_id: str | None
    correlation_id: str | None
    traceparent: str | None
    tracestate: str | None
    batch_id: Id | None
    on_parent_failure: ParentFailure
    pending_parents: int
    scheduled_job_id: Id | None
    scheduled_for: Instant | None
    crash_count: int
    progress: Progress | None
    error: JobError | None
    reason: str | None
    lease: Lease | None
    retention_ms: int | None
    created_at: Instant
    updated_at: Instant
    finalized_at: Instant | None
    actions: list[str]
    payload: NotRequired[Any]


class Relative(TypedDict):
    """A parent or a child; `state` and `job_type` are null once it has been removed."""

    id: Id
    state: State | None
    job_type: str | None


class JobDetail(Job):
    """A job with all that it carries."""

    result: Any
    checkpoint: Any
    checkpoint_cursor: str | None
    output: Any
    parents: list[Relative]
    children: list[Relative]


class Created(TypedDict):
    """The new job, or the one that answers for its key (`deduplicated`)."""

    job: Job
    deduplicated: bool


class ItemError(TypedDict):
    """What is wrong with one item."""

    code: str
    loc: list[str | int]
    msg: str


class BulkResult(TypedDict):
    """What became of one job: an id, or an error."""

    index: int
    job_id: NotRequired[Id]
    state: NotRequired[State]
    deduplicated: NotRequired[bool]
    error: NotRequired[ItemError]


class BulkOut(TypedDict):
    """One result per given job, in order."""

    results: list[BulkResult]
    created: int
    deduplicated: int
    failed: int
