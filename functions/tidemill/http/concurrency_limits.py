"""Standing limits of a project: at most so many jobs of a queue, or of a job type, at once."""

from __future__ import annotations

from typing import Annotated, Literal, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.domain.admission import StandingLimit
from tidemill.domain.errors import Fault, Invalid, NotFound
from tidemill.engine import limits as engine
from tidemill.http import pages
from tidemill.http.fields import CLOSED, Instant, Name
from tidemill.http.job_view import Row, instant
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import new_name, path_name
from tidemill.http.queries import Page
from tidemill.store.postgres import PostgresStore


@with_config(CLOSED)
class LimitIn(TypedDict, total=False):
    """Either `queue` or `job_type`. `cancel_running`: for each job that waits, the oldest of lowest priority is asked to stop."""

    queue: Name | None
    job_type: Name | None
    max_concurrent: Required[Annotated[int, Field(ge=0, le=limits.CONCURRENCY[1])]]
    on_saturated: Literal["queue", "cancel_running"]


class LimitOut(TypedDict):
    """A standing limit. `running`: what counts towards it, no further than one above it."""

    name: str
    queue: str | None
    job_type: str | None
    max_concurrent: int
    on_saturated: Literal["queue", "cancel_running"]
    running: int
    created_at: Instant


class LimitsPage(TypedDict):
    """A page of standing limits by name."""

    items: list[LimitOut]
    next_cursor: str | None


@operation(query=Page, answers={200: LimitsPage}, etag=True)
def list_limits(call: Call) -> Answer:
    """List the standing limits by name."""
    return pages.plain(
        call,
        "concurrency-limits",
        lambda after, limit: call.database.run(lambda store: store.limits(call.project_id, after=after, limit=limit)),
        lambda row: row["name"],
        _shown,
    )


@operation(answers={200: LimitOut})
def show(call: Call, name: str) -> Answer:
    """Show a standing limit."""
    name = path_name("concurrency limit", name)
    return Answer(_shown(call.database.run(lambda store: _row(store, call.project_id, name))))


@operation(body=LimitIn, answers={200: LimitOut, 201: LimitOut})
def put(call: Call, name: str) -> Answer:
    """Create a standing limit, or make it what the body says. What runs already counts, what waits already has to pass it."""
    given = {field: value for field, value in call.body.items() if value is not None}
    if ("queue" in given) == ("job_type" in given):
        raise Invalid([Fault(("queue",), "give either queue or job_type, and only one of them")])
    limit = StandingLimit(name=new_name(name), **given)

    def work(store: PostgresStore) -> tuple[bool, Row]:
        before = store.limits(call.project_id, name=limit.name)
        is_new, row = engine.put_limit(store, call.project_id, limit), _row(store, call.project_id, limit.name)
        call.note("concurrency_limit", limit.name, before=_kept(before[0]) if before else None, after=_kept(row))
        return is_new, row

    is_new, row = call.database.run(work)
    if limit.job_type is not None:
        plain = call.audit.plain if call.audit else call.database  # each step has its own transaction
        plain.run(lambda store: engine.relane_now(store, call.project_id))
    return Answer(_shown(row), 201 if is_new else 200)


@operation(answers={204: None})
def delete(call: Call, name: str) -> Answer:
    """Remove a standing limit: what waited for it may go."""
    name = path_name("concurrency limit", name)

    def work(store: PostgresStore) -> None:
        before = _row(store, call.project_id, name)
        engine.delete_limit(store, call.project_id, name)
        call.note("concurrency_limit", name, before=_kept(before))

    call.database.run(work)
    return Answer("", 204)


def _row(store: PostgresStore, project_id: str, name: str) -> Row:
    found = store.limits(project_id, name=name)
    if not found:
        raise NotFound("concurrency limit", name)
    return found[0]


def _kept(row: Row) -> Row:
    """What the audit log keeps: what it was told, not where it stands."""
    return {field: value for field, value in row.items() if field not in ("running", "created_at")}


def _shown(row: Row) -> Row:
    return row | {"created_at": instant(row["created_at"])}
