"""Batches: what is asked for, and what one looks like."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.http.fields import CLOSED, Id, Instant
from tidemill.http.models.jobs import BulkResult, JobIn

BatchName = Annotated[str, Field(max_length=limits.NAME_CHARS)]
Jobs = Annotated[list[JobIn], Field(max_length=limits.BULK_JOBS)]


@with_config(CLOSED)
class Callbacks(TypedDict, total=False):
    """Jobs to create when the batch has ended: in any case, if all completed, if not. They name no batch and no parents."""

    on_complete: JobIn | None
    on_success: JobIn | None
    on_failure: JobIn | None


@with_config(CLOSED)
class BatchIn(TypedDict, total=False):
    """A batch with its first jobs, all or nothing. `seal`: these are all."""

    name: BatchName | None
    jobs: Jobs | None
    callbacks: Callbacks | None
    seal: bool


@with_config(CLOSED)
class MembersIn(TypedDict):
    """More jobs for an open batch, all or nothing."""

    jobs: Required[Jobs]


class Batch(TypedDict):
    """A batch. pending + completed + failed + cancelled = total, at every moment.

    `fired`: callbacks whose time has come; `error`: why one of them could not be created.
    """

    id: Id
    name: str
    status: Literal["open", "sealed", "completed", "completed_with_failures", "cancelled"]
    total: int
    pending: int
    completed: int
    failed: int
    cancelled: int
    callbacks: dict[str, Any]
    fired: list[Literal["on_complete", "on_success", "on_failure"]]
    error: str | None
    created_at: Instant
    sealed_at: Instant | None
    finalized_at: Instant | None


class BatchCreated(TypedDict):
    """The new batch, and what became of its jobs."""

    batch: Batch
    results: NotRequired[list[BulkResult]]


class BatchesPage(TypedDict):
    """Batches, newest first."""

    items: list[Batch]
    next_cursor: str | None
