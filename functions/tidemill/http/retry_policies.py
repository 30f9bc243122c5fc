"""Named retry policies of a project."""

from __future__ import annotations

from typing import Literal, Required

from typing_extensions import TypedDict

from tidemill.domain.errors import Conflict, NotFound
from tidemill.http import pages
from tidemill.http.fields import Id, Instant, Name
from tidemill.http.ids import new_id
from tidemill.http.job_view import Row, instant
from tidemill.http.models.jobs import InlinePolicy
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import path_name
from tidemill.http.queries import Page
from tidemill.store.postgres import PostgresStore


class PolicyIn(InlinePolicy, total=False):
    """A policy to create."""

    name: Required[Name]


class Policy(TypedDict):
    """A retry policy."""

    id: Id
    name: str
    strategy: Literal["fixed", "linear", "exponential"]
    base_delay_ms: int
    multiplier: float
    max_delay_ms: int
    max_attempts: int
    jitter: bool
    created_at: Instant
    updated_at: Instant


class PoliciesPage(TypedDict):
    """A page of policies by name."""

    items: list[Policy]
    next_cursor: str | None


@operation(query=Page, answers={200: PoliciesPage}, etag=True)
def list_policies(call: Call) -> Answer:
    """List the retry policies by name."""
    return pages.plain(
        call,
        "retry-policies",
        lambda after, limit: call.database.run(lambda store: store.policies(call.project_id, after=after, limit=limit)),
        lambda row: row["name"],
        _shown,
    )


@operation(body=PolicyIn, answers={201: Policy})
def create(call: Call) -> Answer:
    """Create a retry policy. 409 if the name is taken."""
    fields = dict(call.body)
    name = fields.pop("name")

    def work(store: PostgresStore) -> Row:
        if not store.create_policy(call.project_id, str(new_id()), name, fields):
            raise Conflict(f"a retry policy called {name!r} exists already: change it with PATCH")
        return _noted(call, None, _row(store, call.project_id, name))

    return Answer(_shown(call.database.run(work)), 201)


@operation(answers={200: Policy})
def show(call: Call, name: str) -> Answer:
    """Show a retry policy."""
    name = path_name("retry policy", name)
    return Answer(_shown(call.database.run(lambda store: _row(store, call.project_id, name))))


@operation(body=InlinePolicy, answers={200: Policy})
def edit(call: Call, name: str) -> Answer:
    """Change a retry policy; jobs that name it follow from their next failure on."""
    name = path_name("retry policy", name)

    def work(store: PostgresStore) -> Row:
        before = _row(store, call.project_id, name)
        if not store.edit_policy(call.project_id, name, call.body):
            raise NotFound("retry policy", name)
        return _noted(call, before, _row(store, call.project_id, name))

    return Answer(_shown(call.database.run(work)))


@operation(answers={204: None})
def delete(call: Call, name: str) -> Answer:
    """Remove a retry policy. Jobs and queues that name it fall back to the default."""
    name = path_name("retry policy", name)

    def work(store: PostgresStore) -> None:
        before = _row(store, call.project_id, name)
        if not store.delete_policy(call.project_id, name):
            raise NotFound("retry policy", name)
        call.note("retry_policy", name, before=_shown(before))

    call.database.run(work)
    return Answer("", 204)


def _noted(call: Call, before: Row | None, after: Row) -> Row:
    was, now = ({n: v for n, v in _shown(row).items() if n != "updated_at"} if row else None for row in (before, after))
    call.note("retry_policy", after["name"], before=was, after=now)
    return after


def _row(store: PostgresStore, project_id: str, name: str) -> Row:
    found = store.policies(project_id, name=name)
    if not found:
        raise NotFound("retry policy", name)
    return found[0]


def _shown(row: Row) -> Row:
    return row | {name: instant(row[name]) for name in ("created_at", "updated_at")}
