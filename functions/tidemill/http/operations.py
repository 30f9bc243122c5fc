"""Bulk operations in two steps: a plan that says what it would touch, and its application by the scheduler."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from tidemill.domain.operations import Operation as Stored
from tidemill.engine import operations as engine
from tidemill.http import pages
from tidemill.http.ids import new_id
from tidemill.http.job_view import instant
from tidemill.http.models.operations import ApplyIn, Operation, OperationIn, OperationsPage
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.operator_verbs import NothingIn
from tidemill.http.parameters import path_id
from tidemill.http.queries import Page
from tidemill.store.postgres import PostgresStore


@operation(body=OperationIn, answers={201: Operation})
def create(call: Call) -> Answer:
    """Plan an action on all jobs that match a filter. Nothing moves before the plan is applied, unless `dry_run` is false."""
    action, query, now = call.body["action"], call.body["filter"], not call.body.get("dry_run", True)
    operation_id = str(new_id())

    def work(store: PostgresStore) -> Stored:
        made = engine.plan(store, call.project_id, operation_id, action, query, by=caller(call), actor_kind=call.principal.kind)
        if now:
            made = engine.apply(store, call.project_id, operation_id, allow_drift=True, by=caller(call))
        call.note("operation", operation_id, after=told(made))
        return made

    return Answer(shown(call.database.run(work)), 201)


@operation(query=Page, answers={200: OperationsPage}, etag=True)
def list_operations(call: Call) -> Answer:
    """List bulk operations, newest first."""

    def rows(before: str | None, limit: int) -> list[Stored]:
        found: list[Stored] = call.database.run(lambda store: store.operations(call.project_id, before=before, limit=limit))
        return found

    return pages.plain(call, "operations", rows, lambda one: one.id, shown)


@operation(answers={200: Operation})
def show(call: Call, id: str) -> Answer:
    """Show a bulk operation: its plan, and how far it is."""
    operation_id = path_id("operation", id)
    return Answer(shown(call.database.run(lambda store: engine.seen(store, call.project_id, operation_id))))


@operation(body=ApplyIn, body_optional=True, answers={202: Operation})
def apply(call: Call, id: str) -> Answer:
    """Hand a plan to the scheduler. 409 `plan_drifted` if the match has grown by more than 10 %. Applying again changes nothing."""
    drift = call.body.get("allow_drift", False)
    return _moved(call, id, lambda store, it: engine.apply(store, call.project_id, it, allow_drift=drift, by=caller(call)), 202)


@operation(body=NothingIn, body_optional=True, answers={200: Operation})
def abort(call: Call, id: str) -> Answer:
    """End an operation between two of its batches; what it has done stays done."""
    return _moved(call, id, lambda store, it: engine.abort(store, call.project_id, it), 200)


@operation(body=NothingIn, body_optional=True, answers={202: Operation})
def undo(call: Call, id: str) -> Answer:
    """Put the jobs of a cancel or a discard back where they were, as far as they are kept. Asking again changes nothing."""
    return _moved(call, id, lambda store, it: engine.undo(store, call.project_id, it, by=caller(call)), 202)


def caller(call: Call) -> str | None:
    """The id of who is calling, where it is one."""
    try:
        return str(uuid.UUID(call.principal.id))
    except ValueError:
        return None


def told(found: Stored) -> dict[str, Any]:
    """What the audit log keeps of an operation."""
    whole = shown(found)
    return {name: whole[name] for name in ("action", "filter", "status", "estimate", "total", "affected", "skipped", "hash", "allow_drift")}


def shown(found: Stored) -> dict[str, Any]:
    """An operation as the API shows it."""
    total, done = found.total, found.affected + found.skipped
    progress = None if total is None else 1.0 if done >= total or found.status == "completed" else round(done / total, 4)
    undo = None
    if found.undo_at is not None:
        undo = {
            "requested_at": instant(found.undo_at),
            "finished_at": instant(found.undone_at),
            "restored": found.undone,
            "skipped": sum(found.undo_skips.values()),
            "skips": dict(found.undo_skips),
        }
    return {
        "id": found.id,
        "action": found.action,
        "filter": dict(found.filter),
        "states": list(found.states),
        "status": found.status,
        "estimate": {"count": found.estimate, "approximate": found.is_approximate},
        **({"counts": dict(found.counts)} if found.counts else {}),
        "sample": list(found.sample),
        "hash": found.hash,
        "allow_drift": found.allow_drift,
        "total": total,
        "affected": found.affected,
        "skipped": found.skipped,
        "skips": dict(found.skips),
        "progress": progress,
        "error": found.error,
        "undo": undo,
        "actions": found.actions,
        "created_by": found.created_by,
        "applied_by": found.applied_by,
        **{name: instant(getattr(found, name)) for name in ("created_at", "applied_at", "updated_at", "finished_at")},
    }


def _moved(call: Call, id: str, verb: Callable[[PostgresStore, str], Stored], status: int) -> Answer:
    operation_id = path_id("operation", id)

    def work(store: PostgresStore) -> Stored:
        before = engine.seen(store, call.project_id, operation_id)
        after = verb(store, operation_id)
        call.note("operation", operation_id, before=told(before), after=told(after))
        return after

    return Answer(shown(call.database.run(work)), status)
