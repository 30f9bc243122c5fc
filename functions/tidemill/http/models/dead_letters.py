"""Dead letters, one by one and by kind of error."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.http.fields import CLOSED, Id, Instant
from tidemill.http.models.job_filter import JobFilter
from tidemill.http.models.jobs import Count, Job, JobError
from tidemill.http.queries import Cursor, Limit


class DeadLettersQuery(JobFilter):
    """Filters of jobs, all of which must match. `group_by=error` goes with queue, job_type, job_type_prefix and error_class."""

    limit: NotRequired[Limit]
    cursor: NotRequired[Cursor]
    group_by: NotRequired[Literal["error"]]
    sort: NotRequired[Literal["moved_at", "-moved_at"]]
    include: NotRequired[Literal["payload"]]


class DeadLetter(TypedDict):
    """A job that died and that nobody has settled yet. `error_group` names the kind of its error."""

    id: Id
    job_id: Id
    queue: str
    job_type: str
    reason: str
    attempt_count: int
    error: JobError | None
    error_group: str
    moved_at: Instant
    resolved: bool
    resolution: Literal["retry", "discard"] | None
    resolved_at: Instant | None
    resolved_by: Id | None
    note: str | None
    payload: NotRequired[Any]


class DeadLettersPage(TypedDict):
    """A page of dead letters, by when they died."""

    items: list[DeadLetter]
    next_cursor: str | None


class ErrorGroup(TypedDict):
    """A kind of error: class and message without what differs from job to job.

    `count`: open dead letters; `total`: deaths that are remembered; `last_24_h`: deaths per hour, this hour last;
    `filter`: what to give to a bulk operation or to the list of jobs.
    """

    error_group: str
    error_class: str | None
    message: str
    count: Count
    total: int
    first_seen_at: Instant
    last_seen_at: Instant
    last_24_h: list[int]
    queues: list[str]
    job_types: list[str]
    sample_job_id: Id | None
    sample_message: str | None
    filter: dict[str, Any]


class ErrorGroupsPage(TypedDict):
    """A page of kinds of errors, the newest kind first."""

    items: list[ErrorGroup]
    next_cursor: str | None


@with_config(CLOSED)
class ResolveIn(TypedDict):
    """`retry` puts the job back at its first attempt; `discard` takes it out of the open dead letters."""

    action: Literal["retry", "discard"]
    note: NotRequired[Annotated[str, Field(min_length=1, max_length=2_000)] | None]


class Resolved(TypedDict):
    """The dead letter that was settled, and how its job stands now."""

    dead_letter: DeadLetter
    job: Job
