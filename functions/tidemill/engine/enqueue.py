"""Enqueue: jobs come in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Final

from tidemill.domain import keys, limits
from tidemill.domain.errors import Fault, IdempotencyConflict, Invalid, NotFound, QueueFull
from tidemill.domain.jobs import Enqueued, JobSpec
from tidemill.ports import EnqueueStore

TAKES: Final = frozenset({"idempotency_key", "unique", "depends_on", "batch_id"})
"""Fields whose jobs take something before it is known whether another job of the call is refused."""

PLAIN: Final = frozenset({
    "job_type", "queue", "payload", "schema_version", "priority", "run_at", "delay_ms", "max_attempts", "timeout_ms", "headers",
    "traceparent", "tracestate",
})  # fmt: skip
"""Fields of jobs that need nothing but a row and an entry: those of tidemill.plain_fields()."""


def enqueue(
    store: EnqueueStore, project_id: str, jobs: Sequence[JobSpec], *, atomic: bool = True, now: datetime | None = None
) -> list[Enqueued]:
    """One result per job, in order: the new job, or the one that answers for its key, or (not `atomic`) what is wrong with it.

    `atomic`: all or nothing; any refused job raises Invalid listing every one, or IdempotencyConflict for a single job's key,
    or QueueFull if one of the queues has no room for its part of the jobs.
    The jobs are checked for shape already (http.models or tidemill.enqueue do); here only what needs the database can fail.
    """
    if not jobs:
        return []
    # A refusal has only keys and parents' marks to take back; without them the call is one statement and one round trip.
    takes = atomic and not all(TAKES.isdisjoint(job) for job in jobs)
    with store.transaction() if takes else nullcontext():
        if len(jobs) == 1:
            results = [store.enqueue_one(project_id, keys.compact_json(dict(jobs[0])), atomic=atomic, now=now)]
        else:
            plain = all(PLAIN.issuperset(job) for job in jobs)
            results = store.enqueue(project_id, keys.compact_json([dict(job) for job in jobs]), atomic=atomic, plain=plain, now=now)
        refused = [r for r in results if r.code is not None]
        if atomic and (full := next((r for r in refused if r.code == QueueFull.code), None)) is not None:
            raise QueueFull(full.message or "a queue is full", retry_after_secs=limits.FULL_QUEUE_RETRY_SECS)
        if atomic and refused:
            if len(jobs) == 1 and refused[0].code == IdempotencyConflict.code:
                raise IdempotencyConflict(f"idempotency_key: {refused[0].message}")
            raise Invalid([Fault(("jobs", r.position, r.field or ""), r.message or "") for r in refused])
    return results


def rerun(store: EnqueueStore, project_id: str, job_id: str, *, now: datetime | None = None) -> Enqueued:
    """A fresh copy of a stored job, due now, without its keys. NotFound if the project has no such job."""
    spec = store.spec_of(project_id, job_id)
    if spec is None:
        raise NotFound("job", job_id)
    return enqueue(store, project_id, [spec], now=now)[0]
