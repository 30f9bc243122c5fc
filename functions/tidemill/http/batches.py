"""Batches: jobs that end together, and jobs to create when they have."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from tidemill.domain.errors import Fault, Invalid, NotFound, PayloadTooLarge
from tidemill.domain.jobs import Batch as StoredBatch
from tidemill.domain.jobs import Enqueued
from tidemill.engine import batch as engine
from tidemill.http import pages
from tidemill.http.ids import new_id
from tidemill.http.job_view import instant
from tidemill.http.jobs import TOO_LARGE, bulk_answer, over_limit, well_formed
from tidemill.http.models.batches import Batch, BatchCreated, BatchesPage, BatchIn, MembersIn
from tidemill.http.models.jobs import BulkOut
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.operator_verbs import NothingIn
from tidemill.http.parameters import path_id
from tidemill.http.queries import Page
from tidemill.http.tracing import trace_of
from tidemill.http.validation import checked
from tidemill.store.postgres import PostgresStore

NOT_OF_A_CALLBACK = ("batch_id", "depends_on", "on_parent_failure", "ref")


@operation(body=BatchIn, checks_body=False, answers={201: BatchCreated})
def create(call: Call) -> Answer:
    """Create a batch, with its first jobs if it has any. With `seal` an empty one ends at once and its callbacks are created."""
    shell, jobs = _with_jobs(BatchIn, call)
    callbacks = {name: job for name, job in (shell.get("callbacks") or {}).items() if job is not None}
    _check_callbacks(callbacks, call)
    batch_id = str(new_id())

    def work(store: PostgresStore) -> tuple[list[Enqueued], StoredBatch]:
        made = engine.create(
            store,
            call.project_id,
            batch_id,
            name=shell.get("name") or "",
            callbacks=callbacks,
            jobs=jobs,
            sealed=shell.get("seal", False),
        )
        return made, _found(store, call.project_id, batch_id)

    made, batch = call.database.run(work)
    results = bulk_answer(list(enumerate(made)), {}).value["results"]
    return Answer({"batch": shown(batch), "results": results}, 201)


@operation(query=Page, answers={200: BatchesPage}, etag=True)
def list_batches(call: Call) -> Answer:
    """List the batches, newest first."""

    def rows(before: str | None, limit: int) -> list[StoredBatch]:
        found: list[StoredBatch] = call.database.run(lambda store: store.batches(call.project_id, before=before, limit=limit))
        return found

    return pages.plain(call, "batches", rows, lambda batch: batch.id, shown)


@operation(answers={200: Batch})
def show(call: Call, id: str) -> Answer:
    """Show a batch's counters and callbacks. Its jobs: `GET /v1/jobs?batch_id=`."""
    batch_id = path_id("batch", id)
    return Answer(shown(call.database.run(lambda store: _found(store, call.project_id, batch_id))))


@operation(body=MembersIn, checks_body=False, answers={200: BulkOut})
def add(call: Call, id: str) -> Answer:
    """Add jobs to an open batch, all or nothing; 409 once it takes no more. Jobs may depend on each other by `ref`."""
    batch_id = path_id("batch", id)
    _, jobs = _with_jobs(MembersIn, call)
    made = call.database.run(lambda store: engine.add(store, call.project_id, batch_id, jobs))
    return bulk_answer(list(enumerate(made)), {})


@operation(body=NothingIn, body_optional=True, answers={200: Batch})
def seal(call: Call, id: str) -> Answer:
    """Say that no more jobs come. A batch whose jobs have all ended ends now. Sealing again changes nothing."""
    return _answered(call, id, lambda store, batch_id: engine.seal(store, call.project_id, batch_id))


@operation(body=NothingIn, body_optional=True, answers={200: Batch})
def cancel(call: Call, id: str) -> Answer:
    """Cancel what has not begun and ask what runs to stop; no callback is created. Large batches are finished by the scheduler."""
    batch_id = path_id("batch", id)

    def begin(store: PostgresStore) -> str | None:
        before = shown(_found(store, call.project_id, batch_id))
        after = engine.begin_cancel(store, call.project_id, batch_id)
        call.note(
            "batch",
            batch_id,
            before={"status": before["status"]},
            after={"status": shown(_found(store, call.project_id, batch_id))["status"]},
        )
        return after

    after = call.database.run(begin)

    def go_on(store: PostgresStore) -> StoredBatch:
        if after is not None:
            engine.cancel_members(store, call.project_id, batch_id, after, roll=random.random)
        return _found(store, call.project_id, batch_id)

    return Answer(shown(call.plain.run(go_on)))  # each member has its own transaction


def shown(batch: StoredBatch) -> dict[str, Any]:
    """A batch as the API shows it."""
    return {
        "id": batch.id,
        "name": batch.name,
        "status": batch.status,
        "total": batch.total,
        "pending": batch.total - batch.completed - batch.failed - batch.cancelled,
        "completed": batch.completed,
        "failed": batch.failed,
        "cancelled": batch.cancelled,
        "callbacks": dict(batch.callbacks),
        "fired": list(batch.fired),
        "error": batch.error,
        **{name: instant(getattr(batch, name)) for name in ("created_at", "sealed_at", "finalized_at")},
    }


def _answered(call: Call, id: str, verb: Callable[[PostgresStore, str], object]) -> Answer:
    batch_id = path_id("batch", id)

    def work(store: PostgresStore) -> StoredBatch:
        verb(store, batch_id)
        return _found(store, call.project_id, batch_id)

    return Answer(shown(call.database.run(work)))


def _found(store: PostgresStore, project_id: str, batch_id: str) -> StoredBatch:
    batch = store.batch(project_id, batch_id)
    if batch is None:
        raise NotFound("batch", batch_id)
    return batch


def _with_jobs(model: Any, call: Call) -> tuple[dict[str, Any], list[Any]]:
    """The body without its jobs, and the jobs, all of them checked."""
    assert call.raw is not None
    given = call.raw.value
    has_jobs = isinstance(given, dict) and isinstance(given.get("jobs"), list)
    shell: dict[str, Any] = checked(model, {**given, "jobs": []} if has_jobs else given, storable=not call.raw.may_be_unstorable)
    jobs = well_formed(given["jobs"], call.raw, trace_of(call.request.headers)) if has_jobs else []
    text = "is given by the batch: leave it out"
    if faults := [Fault(("jobs", position, "batch_id"), text) for position, job in enumerate(jobs) if "batch_id" in job]:
        raise Invalid(faults)
    return shell, jobs


def _check_callbacks(callbacks: Mapping[str, Any], call: Call) -> None:
    faults = [
        Fault(("callbacks", name, field), "is nothing a callback can have")
        for name, job in callbacks.items()
        for field in NOT_OF_A_CALLBACK
        if field in job
    ]
    if faults:
        raise Invalid(faults)
    for name, job in callbacks.items():
        if over_limit(job, call.raw):
            raise PayloadTooLarge(f"callbacks.{name}.payload: {TOO_LARGE}")
