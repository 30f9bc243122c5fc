"""Rate classes of a project: token buckets that jobs pay into with their weight, and their kill switch."""

from __future__ import annotations

from typing import Annotated, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.domain.admission import RateClass
from tidemill.domain.errors import NotFound
from tidemill.engine import limits as engine
from tidemill.http import pages
from tidemill.http.fields import CLOSED, Instant
from tidemill.http.job_view import Row, instant
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import new_name, path_name
from tidemill.http.queries import Page
from tidemill.store.postgres import PostgresStore


@with_config(CLOSED)
class RateClassIn(TypedDict, total=False):
    """`limit` tokens per `window_ms`, at most `burst` at once (default: `limit`).

    `is_paused`: the kill switch (default: as it is; new: off).
    """

    limit: Required[Annotated[int, Field(ge=limits.RATE[0], le=limits.RATE[1])]]
    window_ms: Required[Annotated[int, Field(ge=limits.WINDOW_MS[0], le=limits.WINDOW_MS[1])]]
    burst: Annotated[int, Field(ge=limits.RATE[0], le=limits.RATE[1])]
    is_paused: bool


class RateClassOut(TypedDict):
    """A rate class. `tokens`: what it has now; below zero after a job dearer than the burst. `closed_until`: a worker's Retry-After."""

    name: str
    limit: int
    window_ms: int
    burst: int
    is_paused: bool
    tokens: float
    closed_until: Instant | None


class RateClassesPage(TypedDict):
    """A page of rate classes by name."""

    items: list[RateClassOut]
    next_cursor: str | None


@operation(query=Page, answers={200: RateClassesPage}, etag=True)
def list_classes(call: Call) -> Answer:
    """List the rate classes by name."""
    return pages.plain(
        call,
        "rate-classes",
        lambda after, limit: call.database.run(lambda store: store.rate_classes(call.project_id, after=after, limit=limit)),
        lambda row: row["name"],
        _shown,
    )


@operation(answers={200: RateClassOut})
def show(call: Call, name: str) -> Answer:
    """Show a rate class."""
    name = path_name("rate class", name)
    return Answer(_shown(call.database.run(lambda store: _row(store, call.project_id, name))))


@operation(body=RateClassIn, answers={200: RateClassOut, 201: RateClassOut})
def put(call: Call, name: str) -> Answer:
    """Create a rate class (with a full bucket), or make it what the body says.

    Jobs that wait already follow. One that was paused resumes from zero.
    """
    body = call.body
    rate = RateClass(new_name(name), body["limit"], body["window_ms"], body.get("burst", body["limit"]), body.get("is_paused"))

    def work(store: PostgresStore) -> tuple[bool, Row]:
        before = store.rate_classes(call.project_id, name=rate.name)
        is_new, row = engine.put_rate_class(store, call.project_id, rate), _row(store, call.project_id, rate.name)
        call.note("rate_class", rate.name, before=_kept(before[0]) if before else None, after=_kept(row))
        return is_new, row

    is_new, row = call.database.run(work)
    return Answer(_shown(row), 201 if is_new else 200)


@operation(answers={204: None})
def delete(call: Call, name: str) -> Answer:
    """Remove a rate class: its jobs, also those that wait already, are free of it."""
    name = path_name("rate class", name)

    def work(store: PostgresStore) -> None:
        before = _row(store, call.project_id, name)
        engine.delete_rate_class(store, call.project_id, name)
        call.note("rate_class", name, before=_kept(before))

    call.database.run(work)
    return Answer("", 204)


def _row(store: PostgresStore, project_id: str, name: str) -> Row:
    found = store.rate_classes(project_id, name=name)
    if not found:
        raise NotFound("rate class", name)
    return found[0]


def _kept(row: Row) -> Row:
    """What the audit log keeps: what it was told, not where it stands."""
    return {field: value for field, value in row.items() if field not in ("tokens", "closed_until")}


def _shown(row: Row) -> Row:
    return row | {"closed_until": instant(row["closed_until"])}
