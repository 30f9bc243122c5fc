"""What bulk operations ask of the world; `store/operations.py` fulfils it on Postgres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from tidemill.domain.operations import Operation
from tidemill.ports import OperateStore, SettleStore


class Outcome(NamedTuple):
    """What became of one member: `moved`, `later` (it is none), or why it was left alone."""

    job_id: str
    outcome: str
    traits: int


class PhaseCount(NamedTuple):
    """Kinds (job type, error class, count, an example), and where to go on (None: it was the end)."""

    kinds: Sequence[tuple[str, str | None, int, str]]
    last: str | None


class OperationStore(SettleStore, OperateStore, Protocol):
    """Plans, and sets of jobs moved at once. Jobs that somebody else holds are left out of the answers, never waited for."""

    def bounded(self) -> AbstractContextManager[None]:
        """A transaction that waits at most 100 ms for a lock, from `take_operation` on: Unavailable then, and nothing was done."""

    def has_queue(self, project_id: str, name: str) -> bool:
        """True if the project has a queue of this name."""

    def create_operation(self, project_id: str, plan: Mapping[str, Any], *, now: datetime | None) -> None:
        """Stores a plan."""

    def operation(self, project_id: str, operation_id: str, *, lock: bool = False) -> Operation | None:
        """The operation; locked until the transaction ends if asked for."""

    def operations(self, project_id: str, *, before: str | None, limit: int) -> list[Operation]:
        """Operations, newest first, behind an id."""

    def begin_operation(
        self, operation_id: str, *, allow_drift: bool, total: int | None, by: str | None, closes: bool = False, now: datetime | None
    ) -> bool:
        """Hands a plan to the scheduler; False if it is none any more."""

    def end_operation(self, operation_id: str, status: str, error: str | None = None, *, now: datetime | None) -> bool:
        """Ends it; False if it had ended."""

    def take_operation(self, skip: Sequence[str]) -> Operation | None:
        """Locks the operation whose turn it is, of those that nobody holds."""

    def moved_operation(
        self, operation_id: str, *, position: str | None, is_walked: bool, again: Sequence[str], affected: int, skips: Mapping[str, int]
    ) -> None:
        """Notes how far a batch has brought it."""

    def ask_undo(self, operation_id: str, *, by: str | None, now: datetime | None) -> bool:
        """Hands its undo to the scheduler; False if that was asked before."""

    def undone_operation(
        self, operation_id: str, *, position: str | None, undone: int, skips: Mapping[str, int], over: bool, now: datetime | None
    ) -> None:
        """Notes how far a batch has brought the undo."""

    def affected_jobs(self, operation_id: str, *, after: str | None, limit: int) -> list[tuple[str, str]]:
        """(job, state before) of the next jobs that it has moved."""

    def count_phase(self, project_id: str, state: str, query: Mapping[str, Any], *, after: str | None, limit: int) -> PhaseCount:
        """The kinds among the next `limit` jobs in a state that `jobs` itself remembers."""

    def counts_phases(self, query: Mapping[str, Any]) -> bool:
        """True if `count_phase` knows every condition of the filter, and it names only states that `jobs` remembers."""

    def kinds_of(self, project_id: str, job_ids: Sequence[str]) -> list[tuple[str, str, str | None, int, str]]:
        """(state, job type, error class, count, an example) of given jobs."""

    def members(
        self, project_id: str, query: Mapping[str, Any], *, after: str | None, descending: bool, limit: int
    ) -> tuple[list[str], str | None]:
        """Those of the next `limit` jobs that match, in order, and the last one looked at (None: it was the end)."""

    def matching_jobs(self, project_id: str, query: Mapping[str, Any], job_ids: Sequence[str]) -> list[str]:
        """Those of given jobs that match."""

    def unchanged(self, project_id: str, job_ids: Sequence[str], since: datetime) -> list[str]:
        """Those of given jobs that have not changed since."""

    def move_many(self, statement: str, job_ids: Sequence[str], values: Mapping[str, Any], *, now: datetime | None) -> list[Outcome]:
        """Moves jobs by `transitions/<statement>`."""

    def prune_operations(self, kept_ms: int, limit: int, *, now: datetime | None) -> tuple[int, int]:
        """(operations, rows of their records) removed of those that ended at least `kept_ms` ago."""

    def queue_jobs(self, queue_id: str, limit: int) -> list[str]:
        """At most `limit` jobs of a queue that are not leased."""

    def ask_queue_to_stop(self, queue_id: str, limit: int, *, now: datetime | None) -> int:
        """Asks what runs of a queue to stop; how many leases there still are (at most `limit`)."""

    def remove_queue(self, queue_id: str, operation_id: str) -> bool:
        """Removes the empty queue that the operation closed; False while somebody may still put a job into it."""

    def close_queue(self, project_id: str, name: str, *, is_closed: bool = True) -> tuple[str, str] | None:
        """Closes a queue to enqueues, or opens it: (its id, this transaction's id); None if the project has no such queue."""

    def open_queue(self, queue_id: str) -> None:
        """Opens a queue that was to be removed."""
