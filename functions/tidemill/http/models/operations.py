"""Bulk operations: what is asked for, and what one looks like."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.http.fields import CLOSED, Id, Instant
from tidemill.http.models.job_filter import JobFilter


@with_config(CLOSED)
class OperationIn(TypedDict, total=False):
    """An action on all jobs that match the filter, which must not be empty.

    `dry_run` (the default) stores a plan; false applies it at once.
    """

    action: Required[Literal["retry", "cancel", "delete", "discard", "promote"]]
    filter: Required[JobFilter]
    dry_run: bool


@with_config(CLOSED)
class ApplyIn(TypedDict, total=False):
    """`allow_drift`: also when the match has grown by more than 10 % since the plan."""

    allow_drift: bool


class Kind(TypedDict):
    """How many jobs of one kind; the name is null for all others together."""

    name: str | None
    count: int


class Counts(TypedDict):
    """The plan's jobs by kind."""

    by_state: dict[str, int]
    by_job_type: list[Kind]
    by_error_class: list[Kind]


class Estimate(TypedDict):
    """How many jobs matched; approximate: at least so many."""

    count: int
    approximate: bool


class Undo(TypedDict):
    """How far the undo is."""

    requested_at: Instant
    finished_at: Instant | None
    restored: int
    skipped: int
    skips: dict[str, int]


class Operation(TypedDict):
    """A bulk operation.

    `total`: members when it was applied (null: not applied, or too many to count); once completed, affected + skipped = total.

    `skips`: members left alone, by reason; `changed`: they had left the filter. `progress`: from 0 to 1, null where the total is not known.
    """

    id: Id
    action: Literal["retry", "cancel", "delete", "discard", "promote", "remove_queue"]
    filter: dict[str, Any]
    states: list[str]
    status: Literal["planned", "applying", "completed", "failed", "aborted", "undoing", "undone"]
    estimate: Estimate
    counts: NotRequired[Counts]
    sample: list[Id]
    hash: str
    allow_drift: bool
    total: int | None
    affected: int
    skipped: int
    skips: dict[str, int]
    progress: Annotated[float, Field(ge=0, le=1)] | None
    error: str | None
    undo: Undo | None
    actions: list[Literal["apply", "abort", "undo"]]
    created_by: Id | None
    created_at: Instant
    applied_by: Id | None
    applied_at: Instant | None
    updated_at: Instant
    finished_at: Instant | None


class OperationsPage(TypedDict):
    """Operations, newest first."""

    items: list[Operation]
    next_cursor: str | None
