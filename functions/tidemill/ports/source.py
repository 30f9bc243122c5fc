"""What a worker asks of the other side. `runner/sources/` fulfils it on Postgres and `client/` over HTTPS."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from tidemill.domain.jobs import (
    Ack,
    AckResult,
    ClaimedJob,
    Enqueued,
    Heartbeat,
    HeartbeatAnswer,
    JobSpec,
    Lease,
    LogLine,
    ParentResult,
    Registered,
    Registration,
)
from tidemill.domain.schedule import Spec


class JobSource(Protocol):
    """All that a worker needs, from Postgres itself or over HTTPS.

    Threads: `claim`, `rest` and `release_strays` belong to one thread, `settle` to another, `heartbeat` to a third; reports
    come from any thread; `wake` may be called from anywhere, signal handlers included. `register` comes first.
    Every method but `rest`, `wake` and `close` raises TidemillError: Unavailable (and Throttled) when the other side cannot
    answer, in which case the call may or may not have taken effect and is repeated by the caller; LeaseLost from reports.
    """

    is_spent: bool
    """Whether the last claim brought jobs and left none that may go yet: a `rest` is due all the same."""

    def register(self, registration: Registration) -> Registered:
        """Makes this source a worker; NotFound for a queue that does not exist. A second call makes another worker."""

    def declare_schedules(self, declared_by: str, specs: Mapping[str, Spec]) -> Mapping[str, int]:
        """Upserts the schedules of a program and pauses those that it declares no more; counts. Forbidden if the key may not."""

    def claim(self, limit: int) -> list[ClaimedJob]:
        """At most `limit` (≤ 500) begun jobs of the registered queues and job types. Does not wait for any to come."""

    def rest(self, timeout_s: float) -> None:
        """After an empty claim: returns when it is worth claiming again: a doorbell, the next due job, `wake`, or the time-out.

        The first call after jobs came may return at once, to look again after having said that it sleeps.
        """

    def wake(self) -> None:
        """Ends the `rest` that is on, or the next one."""

    def settle(self, acks: Sequence[Ack]) -> list[AckResult]:
        """One result per ack (≤ 500), in order. The exact repeat of an applied ack is ok again."""

    def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Extends the leases (≤ 1,000) and tells what is asked of this worker."""

    def progress(self, lease: Lease, current: int, total: int | None, message: str | None) -> None:
        """Stores how far the job is."""

    def checkpoint(self, lease: Lease, data_json: str, cursor: str | None) -> None:
        """Stores what the next attempt starts from."""

    def output(self, lease: Lease, data_json: str) -> None:
        """Stores a partial result."""

    def logs(self, lease: Lease, lines: Sequence[LogLine]) -> None:
        """Stores log lines (≤ 500) of the job."""

    def children(self, lease: Lease, jobs: Sequence[JobSpec]) -> list[Enqueued]:
        """Enqueues jobs that stand or fall with the lease."""

    def parents(self, lease: Lease) -> list[ParentResult]:
        """How the jobs that this one depended on stand, and what they returned, by id."""

    def on_word(self, heed: Callable[[], None]) -> None:
        """Calls `heed`, from a thread of the source's own, when this worker is asked something between two beats. A source that cannot
        know it does nothing: the next beat tells. Comes after `register`.
        """

    def release_strays(self, held: Collection[str]) -> int:
        """Gives back leases of this worker on jobs not in `held`: an answer to a claim that was lost on its way. How many.

        A source that cannot know them returns 0; they end with their lease.
        """

    def deregister(self) -> None:
        """Removes the worker and releases what it still holds, without costing an attempt."""

    def close(self) -> None:
        """Frees connections and threads; any call under way fails with Unavailable."""
