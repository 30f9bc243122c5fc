"""Queues of a project."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.domain.errors import Conflict, Fault, Invalid, NotFound
from tidemill.engine.limits import holding_claims
from tidemill.http import pages
from tidemill.http.fields import CLOSED, Id, Instant, Name, Priority, RetentionMs
from tidemill.http.ids import new_id
from tidemill.http.job_view import Row, instant
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.operator_verbs import NothingIn
from tidemill.http.parameters import path_name
from tidemill.http.queries import Page
from tidemill.store.postgres import PostgresStore


@with_config(CLOSED)
class RetentionIn(TypedDict, total=False):
    """For how long ended jobs are kept, per final state."""

    completed_ms: RetentionMs
    cancelled_ms: RetentionMs
    dead_letter_ms: RetentionMs


@with_config(CLOSED)
class QueueFields(TypedDict, total=False):
    """What a queue can be told; what is left out stays (or has its default)."""

    priority: Priority
    weight: Annotated[int, Field(ge=limits.WEIGHT[0], le=limits.WEIGHT[1])]
    max_concurrency: Annotated[int, Field(ge=0, le=limits.CONCURRENCY[1])] | None
    on_saturated: Literal["queue", "cancel_running"]
    is_paused: bool
    default_retry_policy: Name | None
    visibility_timeout_secs: Annotated[int, Field(ge=1, le=limits.LEASE_MS[1] // 1000)]
    max_unfinished_jobs: Annotated[int, Field(ge=0, le=2**63 - 1)] | None
    retention: RetentionIn
    quarantine_after: Annotated[int, Field(ge=1, le=1_000)]


class QueueIn(QueueFields, total=False):
    """A queue to create."""

    name: Required[Name]


class Retention(TypedDict):
    """For how long ended jobs are kept."""

    completed_ms: int
    cancelled_ms: int
    dead_letter_ms: int


class Queue(TypedDict):
    """A queue."""

    id: Id
    name: str
    priority: int
    weight: int
    max_concurrency: int | None
    on_saturated: Literal["queue", "cancel_running"]
    is_paused: bool
    is_closed: bool
    default_retry_policy: str | None
    visibility_timeout_secs: int
    max_unfinished_jobs: int | None
    retention: Retention
    quarantine_after: int
    created_at: Instant
    updated_at: Instant


class QueuesPage(TypedDict):
    """A page of queues by name."""

    items: list[Queue]
    next_cursor: str | None


@operation(query=Page, answers={200: QueuesPage}, etag=True)
def list_queues(call: Call) -> Answer:
    """List the queues by name."""
    return pages.plain(
        call,
        "queues",
        lambda after, limit: call.database.run(lambda store: store.queues(call.project_id, after=after, limit=limit)),
        lambda row: row["name"],
        _shown,
    )


@operation(body=QueueIn, answers={201: Queue})
def create(call: Call) -> Answer:
    """Create a queue. 409 if the name is taken."""
    name, fields = call.body["name"], _flat(call.body)

    def work(store: PostgresStore) -> Row:
        policy_id = _policy_id(store, call)
        if not store.create_queue(call.project_id, str(new_id()), name, fields, policy_id):
            raise Conflict(f"a queue called {name!r} exists already: change it with PATCH")
        return _noted(call, None, _row(store, call.project_id, name))

    return Answer(_shown(call.database.run(work)), 201)


@operation(answers={200: Queue})
def show(call: Call, name: str) -> Answer:
    """Show a queue."""
    name = path_name("queue", name)
    return Answer(_shown(call.database.run(lambda store: _row(store, call.project_id, name))))


@operation(body=QueueFields, answers={200: Queue})
def edit(call: Call, name: str) -> Answer:
    """Change a queue; what is left out stays, null empties a limit."""
    return _edited(call, name, _flat(call.body), sets_policy="default_retry_policy" in call.body)


@operation(body=NothingIn, body_optional=True, answers={200: Queue})
def pause(call: Call, name: str) -> Answer:
    """Pause a queue: nothing more is claimed from it; what runs goes on."""
    return _edited(call, name, {"is_paused": True})


@operation(body=NothingIn, body_optional=True, answers={200: Queue})
def resume(call: Call, name: str) -> Answer:
    """End a queue's pause."""
    return _edited(call, name, {"is_paused": False})


def _edited(call: Call, name: str, fields: dict[str, Any], *, sets_policy: bool = False) -> Answer:
    name = path_name("queue", name)

    def change(store: PostgresStore) -> Row:
        policy_id = _policy_id(store, call) if sets_policy else None
        before = _row(store, call.project_id, name)
        if not store.edit_queue(call.project_id, name, fields, sets_policy=sets_policy, policy_id=policy_id):
            raise NotFound("queue", name)
        if fields.get("max_concurrency") is not None:
            store.count_queue(call.project_id, name)
        return _noted(call, before, _row(store, call.project_id, name))

    def work(store: PostgresStore) -> Row:
        limits_more = fields.get("max_concurrency") is not None
        return holding_claims(store, lambda: change(store)) if limits_more else change(store)

    return Answer(_shown(call.database.run(work)))


def _noted(call: Call, before: Row | None, after: Row) -> Row:
    was, now = ({n: v for n, v in _shown(row).items() if n != "updated_at"} if row else None for row in (before, after))
    call.note("queue", after["name"], before=was, after=now)
    return after


def _row(store: PostgresStore, project_id: str, name: str) -> Row:
    found = store.queues(project_id, name=name)
    if not found:
        raise NotFound("queue", name)
    return found[0]


def _policy_id(store: PostgresStore, call: Call) -> str | None:
    name = call.body.get("default_retry_policy")
    if name is None:
        return None
    found = store.policies(call.project_id, name=name)
    if not found:
        raise Invalid([Fault(("default_retry_policy",), f"retry policy {name!r} does not exist in this project")])
    policy_id: str = found[0]["id"]
    return policy_id


def _flat(given: dict[str, Any]) -> dict[str, Any]:
    """The fields as columns, without the name and the policy."""
    kept = {f"retention_{name}": value for name, value in given.get("retention", {}).items()}
    return {name: value for name, value in given.items() if name not in ("name", "default_retry_policy", "retention")} | kept


def _shown(row: Row) -> Row:
    shown = {name: value for name, value in row.items() if not name.startswith("retention_")}
    shown["retention"] = {name: row[f"retention_{name}"] for name in ("completed_ms", "cancelled_ms", "dead_letter_ms")}
    return shown | {name: instant(row[name]) for name in ("created_at", "updated_at")}
