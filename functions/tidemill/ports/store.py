"""What the engine asks of a database. `store/` fulfils it on Postgres; every method is one bounded statement unless it says otherwise.

`now` is a test's clock; None means the database's own at that statement, which is the only clock that decides in production.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from tidemill.domain.jobs import (
    BatchCount,
    ChildMoved,
    ClaimedJob,
    ClaimRequest,
    Deleted,
    Edit,
    Ended,
    Enqueued,
    Heartbeat,
    JobSpec,
    Lease,
    LeaseBeat,
    Leased,
    LogLine,
    Move,
    ParentResult,
    Registration,
)
from tidemill.domain.transitions import State
from tidemill.ports.losses import LossStore


class Transactions(Protocol):
    """Groups the statements within it; nests as a no-op. Leaves nothing behind when the body raises."""

    def transaction(self) -> AbstractContextManager[None]:
        """Opens it, or joins the one that is open."""

    def attempt(self) -> AbstractContextManager[None]:
        """As `transaction`, but when its body raises only that is undone, and the transaction around it can go on."""


class EnqueueStore(Transactions, Protocol):
    """Creates jobs."""

    def enqueue(self, project_id: str, jobs_json: str, *, atomic: bool, plain: bool, now: datetime | None) -> list[Enqueued]:
        """One row per job of the JSON array, in order. With `atomic` and any fault nothing is inserted, but keys
        may have been taken: the caller must roll back. `plain`: no job has a field beyond `engine.enqueue.PLAIN`.
        """

    def enqueue_one(self, project_id: str, job_json: str, *, atomic: bool, now: datetime | None) -> Enqueued:
        """The same for one JSON object, in less time than an array of one takes."""

    def spec_of(self, project_id: str, job_id: str) -> JobSpec | None:
        """The create fields of a stored job, without its keys; None if the project has no such job."""


class ClaimStore(Protocol):
    """Hands out leases."""

    met_others: bool
    """Whether the last claim left a queue to another claim that was at it: there may be something soon."""

    def claim(self, request: ClaimRequest, *, now: datetime | None, wait_ms: int) -> list[ClaimedJob]:
        """Moves due entries into leases. Waits at most `wait_ms` in all for queues that serve one claim at a time."""

    def start(self, lease: Lease, *, now: datetime | None) -> datetime | None:
        """When the job began, or None if the lease is not ours."""


class FamilyStore(Transactions, Protocol):
    """Children and batches of jobs that end."""

    def settle_children(self, parents: Sequence[tuple[str, bool]], *, limit: int, now: datetime | None) -> tuple[list[ChildMoved], int]:
        """One round over at most `limit` open edges of (parent, failed) pairs; the children reached, and the edges settled."""

    def batches_of(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Job id → batch id, for members."""

    def count_members(self, counted: Sequence[tuple[str, str, int]], *, reopen: bool, now: datetime | None) -> list[BatchCount]:
        """Moves counters by (batch, counter, delta); the batches, locked."""

    def finish_batch(self, batch_id: str, status: str, fired: Sequence[str], error: str | None, *, now: datetime | None) -> bool:
        """Ends a sealed batch; False if it is not sealed."""

    def enqueue_callback(self, project_id: str, job: JobSpec, *, now: datetime | None) -> Enqueued:
        """Enqueues the job if it can be; a refused one says why, whatever is wrong with it, and the transaction goes on."""


class SettleStore(FamilyStore, LossStore, Protocol):
    """Ends attempts."""

    def complete(self, acks: Sequence[tuple[Lease, str | None, int]], *, now: datetime | None) -> dict[Lease, int]:
        """Completes by (lease, result JSON, digest); the traits of every lease that was ours."""

    def leased(self, leases: Sequence[Lease]) -> list[Leased]:
        """Locks those of `leases` that are ours, in job_id order, and the keys they may free; what `decide` needs of each."""

    def expired(self, limit: int, *, now: datetime | None) -> list[Leased]:
        """Locks at most `limit` leases that have run out; skips those that somebody is settling."""

    def settle(self, moves: Sequence[Move], *, now: datetime | None) -> dict[str, tuple[State, int]]:
        """Applies decided moves; job id → (new state, traits) for every lease that was ours."""

    def close_rate_classes(self, throttled: Sequence[tuple[str, int]], *, now: datetime | None) -> None:
        """Closes the rate classes of jobs for so many ms each; never shortens."""

    def ended(self, leases: Sequence[Lease]) -> list[Ended]:
        """Those of `leases` whose attempt has ended with a history row."""


class HeartbeatStore(Transactions, Protocol):
    """Keeps leases and workers alive."""

    def extend(self, leases: Sequence[Lease], *, now: datetime | None) -> list[LeaseBeat]:
        """Extends what is ours, never shortens, never waits."""

    def beat(self, project_id: str, worker_id: str, beat: Heartbeat, *, now: datetime | None) -> str | None:
        """Notes the sign of life and takes the command that waits, if any. An unknown worker is no error."""

    def register(self, project_id: str, worker_id: str, registration: Registration, *, now: datetime | None) -> set[str]:
        """Adds the worker unless one of its queues does not exist; the names of those that do."""

    def deregister(self, project_id: str, worker_id: str) -> bool:
        """Removes the worker's row; False if there was none."""

    def leases_of(self, project_id: str, worker_id: str, limit: int) -> list[Lease]:
        """At most `limit` leases that the worker holds, in job_id order."""

    def command(self, project_id: str, worker_id: str, command: str) -> bool:
        """Leaves a command for the worker's next heartbeat; False if there is no such worker."""


class ReportStore(Protocol):
    """Writes what a running job says. Each returns False (or None) and writes nothing if the lease is not ours."""

    def progress(self, lease: Lease, current: int, total: int | None, message: str | None, *, now: datetime | None) -> bool:
        """Stores how far the job is."""

    def checkpoint(self, lease: Lease, data_json: str, cursor: str | None, *, now: datetime | None) -> bool:
        """Stores what the next attempt starts from."""

    def output(self, lease: Lease, data_json: str, *, now: datetime | None) -> bool:
        """Stores a partial result."""

    def logs(self, lease: Lease, lines: Sequence[LogLine], *, keep: int) -> int | None:
        """How many of the lines were stored; a job keeps at most `keep`."""

    def parents(self, lease: Lease, *, after: str, limit: int, size_bytes: int) -> list[ParentResult] | None:
        """The next parents by id, as many as fit; None if the lease is not ours."""

    def hold_lease(self, project_id: str, lease: Lease) -> tuple[str | None, str | None] | None:
        """Locks the lease until the transaction ends; its job's (traceparent, tracestate)."""


class OperateStore(FamilyStore, Protocol):
    """Moves single jobs by hand. Each returns False (None) if the job was not where the move starts, else its traits where they matter."""

    def state(self, project_id: str, job_id: str, *, now: datetime | None = None) -> tuple[State, Lease | None] | None:
        """The job's state and, if leased, its lease; None if the project has no such job."""

    def cancel_entry(self, project_id: str, job_id: str, reason: str, *, now: datetime | None) -> int | None:
        """Cancels a scheduled or queued job."""

    def cancel_waiting(self, project_id: str, job_id: str, phase: str, reason: str, *, now: datetime | None) -> int | None:
        """Cancels a job in that phase (waiting or quarantined)."""

    def request_cancel(self, project_id: str, job_id: str, *, now: datetime | None) -> Lease | None:
        """Asks a leased job to stop; its lease."""

    def take_hold(self, project_id: str, job_id: str, *, now: datetime | None) -> str | None:
        """The job that holds a dead job's unique key after this (itself if it was free); None if it has none to take."""

    def retry(self, project_id: str, job_id: str, *, by: str | None, now: datetime | None) -> int | None:
        """Puts a dead job back at its first attempt."""

    def promote(self, project_id: str, job_id: str, *, now: datetime | None) -> bool:
        """Lets a pending job go."""

    def move_entry(
        self,
        project_id: str,
        job_id: str,
        *,
        run_at: datetime | None = None,
        priority: int | None = None,
        only_ahead: bool = False,
        now: datetime | None,
    ) -> bool:
        """Moves a scheduled or queued job; `only_ahead`: only one that is not due yet."""

    def move_waiting(
        self,
        project_id: str,
        job_id: str,
        *,
        run_at: datetime | None = None,
        priority: int | None = None,
        phases: Sequence[str] = ("waiting",),
        now: datetime | None,
    ) -> bool:
        """Moves a job that has no entry."""

    def edit(self, project_id: str, job_id: str, edit: Edit, *, now: datetime | None) -> bool:
        """Changes what a job carries."""

    def delete(self, project_id: str, job_ids: Sequence[str]) -> list[Deleted]:
        """Deletes those of the jobs that are not leased, with all that belongs to them; their ids."""


class SweepStore(SettleStore, OperateStore, EnqueueStore, Protocol):
    """What a scheduler pass sweeps. `limit` bounds every call."""

    def ring(self, limit: int, *, now: datetime | None) -> tuple[int, int]:
        """(due jobs seen, sleepers woken)."""

    def prunable(self, limit: int, *, now: datetime | None) -> list[tuple[str, str]]:
        """(project id, job id) of ended jobs whose retention is over."""

    def prune(self, job_ids: Sequence[str], *, now: datetime | None) -> int:
        """How many of the jobs were deleted: those whose end and retention are still over, and that nobody else is deleting."""

    def prune_sessions(self, limit: int, *, now: datetime | None) -> int:
        """Removes refresh tokens that have been over for a day; how many."""

    def prune_audit(self, kept_days: int, limit: int) -> int:
        """Removes the oldest notes of the audit log, if older than that; how many. Never any from within a year."""

    def prune_partitions(self, kept_ms: int, limit: int, *, now: datetime | None) -> int:
        """Removes partitions that nobody has served for so long and that have nothing ready; how many. Not within a transaction:
        it waits in line for each queue, at most a second, behind the claims."""

    def prune_holds(self, limit: int, *, now: datetime | None) -> int:
        """How many unique keys whose time is over were freed."""

    def prune_batches(self, kept_ms: int, limit: int, *, now: datetime | None) -> int:
        """How many batches were removed that ended at least `kept_ms` ago and have no job left."""

    def prune_workers(self, stale_ms: int, limit: int, *, now: datetime | None) -> tuple[int, int]:
        """(workers, heartbeats) removed."""


class WorkStore(ClaimStore, SettleStore, HeartbeatStore, Protocol):
    """All of a worker's beat."""
