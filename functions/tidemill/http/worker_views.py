"""Workers as an operator sees and steers them."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain.errors import NotFound
from tidemill.engine import worker as engine
from tidemill.http import pages
from tidemill.http.fields import CLOSED, Id, Instant, Label, Name
from tidemill.http.job_view import Row, instant, with_json
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import path_id
from tidemill.http.queries import Page
from tidemill.store.postgres import PostgresStore

COUNTED: Final = 1_000

Command = Literal["quiet", "resume", "restart", "terminate"]


@with_config(CLOSED)
class CommandIn(TypedDict):
    """What the worker is to do at its next heartbeat."""

    command: Command


class Worker(TypedDict):
    """A worker. `is_live`: seen within the length of its leases."""

    id: Id
    name: str
    hostname: str
    pid: int | None
    version: str
    queues: list[str]
    job_types: list[str] | None
    max_concurrency: int
    lease_ms: int
    status: Literal["running", "quiet", "draining", "stopped"]
    command: Command | None
    active_job_count: int
    cpu_percent: float | None
    memory_mb: float | None
    started_at: Instant
    last_seen_at: Instant
    is_live: bool


class Versions(TypedDict):
    """Workers of one version."""

    version: str
    live: int
    stale: int


class Load(TypedDict):
    """All the project's workers in figures, whatever the filter: the last 1,000. `room`: jobs that the live ones can run at once."""

    live: int
    stale: int
    active_jobs: int
    room: int
    versions: list[Versions]


class WorkersPage(TypedDict):
    """A page of workers in the order they came."""

    items: list[Worker]
    next_cursor: str | None
    load: Load


class WorkersQuery(Page):
    """Filters, all of which must match."""

    state: NotRequired[Literal["live", "stale"]]
    name: NotRequired[Label]
    version: NotRequired[Annotated[str, Field(max_length=100)]]
    queue: NotRequired[Name]


@operation(query=WorkersQuery, answers={200: WorkersPage}, etag=True)
def list_workers(call: Call) -> Answer:
    """List the workers, live and stale, with versions and load."""
    query = call.query
    live = {"live": query["state"] == "live"} if "state" in query else {}
    cursors = pages.cursors_of(call, "workers")
    start = pages.start_of(call, cursors)
    size = pages.size_of(call)

    def work(store: PostgresStore) -> tuple[list[Row], list[Row]]:
        rows = store.workers(call.project_id, filters={**query, **live}, after=start[0] if start else None, limit=size + 1)
        return rows, store.worker_load(call.project_id, COUNTED)

    found, versions = call.database.run(work)
    items = [(with_json(_shown(row)), [row["id"]]) for row in found[:size]]
    return pages.answer(items, cursors, more=items[-1][1] if len(found) > size else None, load=_load(versions))


def _load(versions: list[Row]) -> Row:
    total = {name: sum(int(row[name]) for row in versions) for name in ("live", "stale", "active", "room")}
    told = [{name: row[name] for name in ("version", "live", "stale")} for row in versions]
    return {"live": total["live"], "stale": total["stale"], "active_jobs": total["active"], "room": total["room"], "versions": told}


@operation(answers={200: Worker})
def show(call: Call, id: str) -> Answer:
    """Show a worker."""
    worker_id = path_id("worker", id)
    return Answer(_shown(call.database.run(lambda store: _row(store, call.project_id, worker_id))))


@operation(body=CommandIn, answers={200: Worker})
def command(call: Call, id: str) -> Answer:
    """Leave a command for a worker's next heartbeat; a later one takes its place."""
    worker_id = path_id("worker", id)

    def work(store: PostgresStore) -> Row:
        before = _row(store, call.project_id, worker_id)
        engine.command(store, call.project_id, worker_id, call.body["command"])
        after = _row(store, call.project_id, worker_id)
        call.note("worker", worker_id, before=_told(before), after=_told(after))
        return after

    return Answer(_shown(call.database.run(work)))


def _told(row: Row) -> Row:
    return {name: row[name] for name in ("name", "status", "command")}


def _row(store: PostgresStore, project_id: str, worker_id: str) -> Row:
    found = store.workers(project_id, worker_id=worker_id)
    if not found:
        raise NotFound("worker", worker_id)
    return found[0]


def _shown(row: Row) -> Row:
    return row | {name: instant(row[name]) for name in ("started_at", "last_seen_at")}
