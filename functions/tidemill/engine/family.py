"""What a job's end means to others, in the same transaction: children that waited for it, and the batch it belongs to.

Only jobs with the traits CHILDREN or BATCH get here, so others pay nothing. The marks are set under the locks of the parent's entry and
lease (migration 0006), so a child enqueued at the same instant is either seen here or sees the end itself; the sweep is a second line.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple, cast

from tidemill.domain.jobs import BatchCount, JobSpec
from tidemill.domain.transitions import State
from tidemill.ports import FamilyStore

BATCH: Final = 8
CHILDREN: Final = 64
EDGES: Final = 1_000
ROUNDS: Final = 1_000
PATIENCE_SECS: Final = 3.0
"""After that no new round begins, so that what ends the first parent is never undone by a time-out, however deep its family is."""

Outcome = Literal["completed", "failed", "cancelled"]
_OUTCOMES: Final[Mapping[State, Outcome]] = {
    State.COMPLETED: "completed",
    State.DEAD_LETTER: "failed",
    State.CANCELLED: "cancelled",
}


class End(NamedTuple):
    """A job that has just left the states in which others wait for it."""

    job_id: str
    state: State
    traits: int


def after_end(store: FamilyStore, ends: Sequence[End], *, now: datetime | None = None, patience_secs: float | None = None) -> None:
    """Settles children and counts members. Quarantine fails a parent, but does not end a batch member."""
    parents = [(e.job_id, e.state is not State.COMPLETED) for e in ends if e.traits & CHILDREN]
    members = [(e.job_id, _OUTCOMES[e.state]) for e in ends if e.traits & BATCH and e.state in _OUTCOMES]
    if parents:
        members += settle_children(store, parents, now=now, patience_secs=patience_secs)
    count_ended(store, members, now=now)


def settle_children(
    store: FamilyStore, parents: Sequence[tuple[str, bool]], *, now: datetime | None = None, patience_secs: float | None = None
) -> list[tuple[str, Outcome]]:
    """Tells the children of (parent, failed) pairs, and theirs where one is cancelled for it; batch members cancelled on the way.

    At most a million edges and about 3 seconds in one transaction; what is left is the sweep's.
    """
    cancelled: list[tuple[str, Outcome]] = []
    wave = sorted(parents)
    began, patience = time.monotonic(), PATIENCE_SECS if patience_secs is None else patience_secs
    for done in range(ROUNDS):
        if not wave or (done and time.monotonic() - began >= patience):
            break
        moved, edges = store.settle_children(wave, limit=EDGES, now=now)
        cancelled += [(m.job_id, "cancelled") for m in moved if m.cancelled and m.traits & BATCH]
        fallen = [(m.job_id, True) for m in moved if m.cancelled and m.traits & CHILDREN]
        wave = sorted({*(wave if edges >= EDGES else ()), *fallen})
    return cancelled


def count_ended(store: FamilyStore, members: Sequence[tuple[str, str]], *, now: datetime | None = None) -> None:
    """Counts members (job, outcome) that have just ended in their batches."""
    if members:
        batch_of = store.batches_of([job_id for job_id, _ in members])
        count_members(store, [(batch_of[job_id], outcome, 1) for job_id, outcome in members if job_id in batch_of], now=now)


def count_members(
    store: FamilyStore, counted: Sequence[tuple[str, str, int]], *, reopen: bool = False, now: datetime | None = None
) -> None:
    """Moves batch counters by (batch, counter, delta); a sealed batch with nothing pending ends and fires its callbacks."""
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for batch_id, counter, delta in counted:
        sums[batch_id, counter] += delta
    if sums:
        for batch in store.count_members([(b, c, n) for (b, c), n in sorted(sums.items())], reopen=reopen, now=now):
            end_if_done(store, batch, now=now)


def end_if_done(store: FamilyStore, batch: BatchCount, *, now: datetime | None = None) -> bool:
    """Ends a sealed batch whose members have all ended, and enqueues each callback once, ever. True if it has ended now."""
    done = batch.completed + batch.failed + batch.cancelled
    if batch.status != "sealed" or done < batch.total:
        return False
    clean = batch.failed == 0 and batch.cancelled == 0
    names = ["on_complete", "on_success" if clean else "on_failure"]
    due = [name for name in names if name in batch.callbacks and name not in batch.fired]
    refused = []
    for name in due:
        made = store.enqueue_callback(batch.project_id, _callback(batch, name), now=now)
        if made.code:
            refused.append(f"{name}: {made.field or 'job'}: {made.message}")
    status = "completed" if clean else "completed_with_failures"
    return store.finish_batch(batch.batch_id, status, due, "; ".join(refused)[:2000] or None, now=now)


def _callback(batch: BatchCount, name: str) -> JobSpec:
    spec = dict(cast("JobSpec", batch.callbacks[name]))
    headers = {**(spec.get("headers") or {}), "tidemill-batch-id": batch.batch_id, "tidemill-batch-callback": name}
    return {**spec, "headers": headers}
