"""What the API answers, as frozen objects. Fields that a newer API adds are in `raw`; what an answer leaves out is None."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self

from tidemill.client.problems import UnexpectedAnswer


@dataclass(frozen=True, slots=True)
class Answer:
    """Base of the objects below."""

    @classmethod
    def read(cls, given: Any) -> Self:
        """The object in this JSON. UnexpectedAnswer if it is no object or lacks what the class cannot do without."""
        if not isinstance(given, Mapping):
            raise UnexpectedAnswer(f"a {cls.__name__} was expected, not {type(given).__name__}")
        known = {f.name for f in fields(cls)}
        values = {name: _instant(value) if name.endswith("_at") else value for name, value in given.items() if name in known}
        try:
            return cls(**values | ({"raw": given} if "raw" in known else {}))
        except TypeError:
            raise UnexpectedAnswer(f"the answer is no {cls.__name__}: it has the fields {', '.join(sorted(given))[:200]}") from None


@dataclass(frozen=True, slots=True)
class Job(Answer):
    """A job as it stood when the API answered. Lists leave `payload` out unless asked for it."""

    id: str
    job_type: str
    queue: str
    state: str
    priority: int = 0
    run_at: datetime | None = None
    attempt_count: int = 0
    max_attempts: int | None = None
    payload: Any = None
    schema_version: int | None = None
    result: Any = None
    progress: Mapping[str, Any] | None = None
    checkpoint: Any = None
    output: Any = None
    lease: Mapping[str, Any] | None = None
    tags: Sequence[str] = ()
    headers: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    created_at: datetime | None = None
    finalized_at: datetime | None = None
    actions: Sequence[str] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_final(self) -> bool:
        """True once nothing but an operator's retry moves the job."""
        return self.state in ("completed", "cancelled", "dead_letter")


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The job that stands for the request, and whether it was there before (`deduplicated`). Without its payload, as in lists."""

    job: Job
    deduplicated: bool

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id


@dataclass(frozen=True, slots=True)
class BulkItem(Answer):
    """What became of one job of a bulk call: a job id, or `error` with `code`, `loc` and `msg` as far as the API tells."""

    index: int
    job_id: str | None = None
    state: str | None = None
    deduplicated: bool = False
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class BulkAnswer:
    """One item per given job, in order, and their counts."""

    results: Sequence[BulkItem]
    created: int
    deduplicated: int
    failed: int

    @property
    def job_ids(self) -> list[str]:
        """The ids of all that are in the queue now, in the order given."""
        return [item.job_id for item in self.results if item.job_id is not None]

    def __iter__(self) -> Iterator[BulkItem]:
        return iter(self.results)


@dataclass(frozen=True, slots=True)
class Batch(Answer):
    """A batch as it stood when the API answered; pending + completed + failed + cancelled = total."""

    id: str
    name: str
    status: str
    total: int
    pending: int
    completed: int
    failed: int
    cancelled: int
    callbacks: Mapping[str, Any] = field(default_factory=dict)
    fired: Sequence[str] = ()
    error: str | None = None
    created_at: datetime | None = None
    sealed_at: datetime | None = None
    finalized_at: datetime | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Execution(Answer):
    """One ended attempt."""

    attempt: int | None = None
    status: str | None = None
    worker_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_ms: float | None = None
    exit_code: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def _instant(value: Any) -> Any:
    """RFC 3339 text as an aware datetime; anything else as it is."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return value
