"""One job, and what happened to it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.domain.errors import NotFound
from tidemill.http import pages
from tidemill.http.audit_log import FILTERS
from tidemill.http.fields import CLOSED, Id, Instant
from tidemill.http.job_view import Row, instant, job_json, with_json
from tidemill.http.models.jobs import JobDetail, JobError, State
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import path_id
from tidemill.http.queries import Cursor, Limit, Whole
from tidemill.http.timeline import timeline
from tidemill.store.postgres import PostgresStore

LEVELS = ("debug", "info", "warning", "error")


class Execution(TypedDict):
    """An attempt that has ended. `id` was its lease token."""

    id: Id
    attempt: int
    fence: int
    status: Literal["completed", "failed", "snoozed", "released", "cancelled", "crashed", "lease_expired"]
    worker_id: Id | None
    exit_code: int | None
    queued_at: Instant
    started_at: Instant
    finished_at: Instant
    duration_ms: int
    error: JobError | None
    stack: str | None
    result: Any


class ExecutionsPage(TypedDict):
    """All attempts that are kept: the last 100, the oldest first."""

    items: list[Execution]
    next_cursor: None


@with_config(CLOSED)
class LogsQuery(TypedDict):
    """`after`: the id of a line; `level`: at least so grave."""

    limit: NotRequired[Limit]
    cursor: NotRequired[Cursor]
    after: NotRequired[Annotated[int, Whole, Field(ge=0, le=2**63 - 1)]]
    level: NotRequired[Literal["debug", "info", "warning", "error"]]


class LogLine(TypedDict):
    """A line of the log. `fence` is the attempt's (see `/executions`); null once that is no longer kept."""

    id: str
    fence: int | None
    ts: Instant
    level: Literal["debug", "info", "warning", "error"]
    message: str


class LogsPage(TypedDict):
    """Lines in the order they came."""

    items: list[LogLine]
    next_cursor: str | None


class TimelineEvent(TypedDict):
    """Something that happened to a job."""

    at: Instant
    event: str
    state: State | None
    attempt: int | None
    worker_id: Id | None
    detail: str | None


class TimelinePage(TypedDict):
    """What happened, the oldest first."""

    items: list[TimelineEvent]
    next_cursor: None


def row_of(store: PostgresStore, project_id: str, job_id: str, *, payload: bool = False) -> Row:
    """The job's row; NotFound if the project has no such job."""
    found = store.jobs_by_id(project_id, [job_id], payload=payload)
    if not found:
        raise NotFound("job", job_id)
    return found[0]


def detail(store: PostgresStore, project_id: str, job_id: str) -> str:
    """JSON text of a job with all that it carries."""
    row = row_of(store, project_id, job_id, payload=True)
    carried = store.carried(job_id)
    kin = store.relatives(project_id, job_id, limits.DEPENDS_ON)
    cursor = with_json({"checkpoint_cursor": carried["checkpoint_cursor"]})[1:-1].partition(":")[2]
    return job_json(
        row,
        payload=row["payload"],
        result=carried["result"],
        checkpoint=carried["checkpoint"],
        checkpoint_cursor=cursor,
        output=carried["output"],
        parents=_relatives(kin, "parent"),
        children=_relatives(kin, "child"),
    )


@operation(answers={200: JobDetail}, etag=True)
def show(call: Call, id: str) -> Answer:
    """Show a job with payload, result, progress, checkpoint, output, lease and the actions that its state allows."""
    job_id = path_id("job", id)
    return Answer(call.database.run(lambda store: detail(store, call.project_id, job_id)))


@operation(answers={200: ExecutionsPage}, etag=True)
def executions(call: Call, id: str) -> Answer:
    """List the attempts that have ended, the oldest first; the last 100 are kept."""
    job_id = path_id("job", id)

    def work(store: PostgresStore) -> list[Row]:
        row_of(store, call.project_id, job_id)
        return store.executions(job_id, limits.EXECUTIONS_KEPT)

    texts = [_execution(row) for row in call.database.run(work)]
    return Answer(f'{{"items":[{",".join(texts)}],"next_cursor":null}}')


@operation(query=LogsQuery, answers={200: LogsPage}, etag=True)
def logs(call: Call, id: str) -> Answer:
    """List a job's log lines in the order they came."""
    job_id = path_id("job", id)
    after = call.query.get("after", 0)
    levels = LEVELS[LEVELS.index(call.query.get("level", "debug")) :]

    def rows(store: PostgresStore, start: int | None, limit: int) -> list[Row]:
        row_of(store, call.project_id, job_id)
        return store.log_lines(job_id, after=after if start is None else start, levels=levels, limit=limit)

    return pages.plain(
        call,
        f"jobs/{job_id}/logs",
        lambda start, limit: call.database.run(lambda store: rows(store, start, limit)),
        lambda row: row["id"],
        lambda row: {**row, "id": str(row["id"]), "ts": instant(row["ts"])},
    )


@operation(answers={200: TimelinePage}, etag=True)
def events(call: Call, id: str) -> Answer:
    """Tell a job's story, the oldest event first, from what is stored of it."""
    job_id = path_id("job", id)

    def work(store: PostgresStore) -> list[Row]:
        row = row_of(store, call.project_id, job_id)
        filters = dict.fromkeys(FILTERS) | {"target_kind": "job", "target_id": job_id}
        notes = store.audit_log(call.project_id, before=None, filters=filters, scan=limits.EXECUTIONS_KEPT)
        return timeline(row, store.executions(job_id, limits.EXECUTIONS_KEPT), store.dead_letters(job_id), notes)

    return Answer({"items": call.database.run(work), "next_cursor": None})


def _relatives(kin: list[tuple[str, str, str | None, str | None]], side: str) -> str:
    shown = [{"id": job_id, "state": state, "job_type": job_type} for found, job_id, state, job_type in kin if found == side]
    return json.dumps(shown, separators=(",", ":"))


def _execution(row: Row) -> str:
    plain = ("id", "attempt", "fence", "status", "worker_id", "exit_code", "duration_ms")
    fields = {
        **{name: row[name] for name in plain},
        **{name: instant(row[name]) for name in ("queued_at", "started_at", "finished_at")},
        "error": {"class": row["error_class"], "message": row["error_message"]} if row["error_class"] is not None else None,
        "stack": row["error_stack"],
    }
    return with_json(fields, result=row["result"])
