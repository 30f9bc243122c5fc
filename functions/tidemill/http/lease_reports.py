"""What a running job says, under its lease. A lost lease is 409 and writes nothing; a job that the project does not have is 404."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, Required, TypeVar

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import keys, limits
from tidemill.domain.errors import LeaseLost, PayloadTooLarge
from tidemill.domain.jobs import Lease, LogLine
from tidemill.engine import claim, report
from tidemill.http.fields import CLOSED, BigInt, Id, Instant, text_of
from tidemill.http.job_detail import row_of
from tidemill.http.job_view import with_json
from tidemill.http.jobs import bulk_answer, well_formed
from tidemill.http.models.jobs import BulkOut, JobIn, State
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.own_leases import own
from tidemill.http.parameters import path_id
from tidemill.http.tracing import trace_of
from tidemill.http.validation import checked
from tidemill.store.postgres import PostgresStore

T = TypeVar("T")


@with_config(CLOSED)
class TokenIn(TypedDict):
    """The lease."""

    lease_token: Id


@with_config(CLOSED)
class ProgressIn(TypedDict, total=False):
    """How far the job is. A longer message is cut."""

    lease_token: Required[Id]
    current: Required[BigInt]
    total: BigInt | None
    message: str | None


@with_config(CLOSED)
class CheckpointIn(TypedDict, total=False):
    """What the next attempt starts from."""

    lease_token: Required[Id]
    data: Required[Any]
    cursor: Annotated[str, Field(max_length=1_000)] | None


@with_config(CLOSED)
class OutputIn(TypedDict):
    """A partial result."""

    lease_token: Id
    data: Any


@with_config(CLOSED)
class LineIn(TypedDict):
    """A line of the log. A longer message is cut."""

    ts: Instant
    level: Literal["debug", "info", "warning", "error"]
    message: str


@with_config(CLOSED)
class LinesIn(TypedDict):
    """At most 500 lines."""

    lease_token: Id
    lines: Annotated[list[LineIn], Field(max_length=limits.LOG_LINES_PER_CALL)]


@with_config(CLOSED)
class ChildrenIn(TypedDict):
    """Jobs that stand or fall with the lease."""

    lease_token: Id
    jobs: Annotated[list[JobIn], Field(max_length=limits.BULK_JOBS)]


@with_config(CLOSED)
class ParentsIn(TypedDict):
    """`after`: the last parent that the answer before gave."""

    lease_token: Id
    after: NotRequired[Id | None]
    limit: NotRequired[Annotated[int, Field(ge=limits.PAGE_ROWS[0], le=limits.PAGE_ROWS[1])]]


class ParentResult(TypedDict):
    """How a parent stands (null once it has been removed), and what it returned."""

    id: Id
    state: State | None
    result: Any


class ParentsOut(TypedDict):
    """Parents by id; an empty page is the end."""

    items: list[ParentResult]


class Started(TypedDict):
    """When the job began."""

    started_at: Instant


class Stored(TypedDict):
    """How many lines were stored: a job keeps 10,000."""

    stored: int


@operation(body=TokenIn, answers={200: Started}, cleans_text=True)
def start(call: Call, id: str) -> Answer:
    """Begin a claimed job. A repeat answers when it began."""
    began = _under_lease(call, id, claim.start)
    return Answer({"started_at": text_of(began)})


@operation(body=ProgressIn, answers={200: dict[str, Any]}, cleans_text=True)
def progress(call: Call, id: str) -> Answer:
    """Tell how far the job is."""
    given = call.body
    message = given.get("message")
    message = message[: limits.PROGRESS_MESSAGE_CHARS] if message is not None else None
    _under_lease(call, id, lambda store, lease: report.progress(store, lease, given["current"], given.get("total"), message))
    return Answer({})


@operation(body=CheckpointIn, answers={200: dict[str, Any]}, cleans_text=True)
def checkpoint(call: Call, id: str) -> Answer:
    """Store what the next attempt starts from."""
    text = _limited("data", call.body["data"])
    _under_lease(call, id, lambda store, lease: report.checkpoint(store, lease, text, call.body.get("cursor")))
    return Answer({})


@operation(body=OutputIn, answers={200: dict[str, Any]}, cleans_text=True)
def output(call: Call, id: str) -> Answer:
    """Store a partial result; the last one stays."""
    text = _limited("data", call.body["data"])
    _under_lease(call, id, lambda store, lease: report.output(store, lease, text))
    return Answer({})


@operation(body=LinesIn, answers={200: Stored}, cleans_text=True)
def logs(call: Call, id: str) -> Answer:
    """Store log lines in order."""
    most = limits.LOG_MESSAGE_CHARS
    lines = [LogLine(datetime.fromisoformat(line["ts"]), line["level"], line["message"][:most]) for line in call.body["lines"]]
    return Answer({"stored": _under_lease(call, id, lambda store, lease: report.logs(store, lease, lines))})


@operation(body=ChildrenIn, checks_body=False, answers={200: BulkOut})
def children(call: Call, id: str) -> Answer:
    """Create jobs that stand or fall with the lease: all of them, or none."""
    given = call.body if isinstance(call.body, dict) else {}
    shell = checked(ChildrenIn, {**given, "jobs": []} if isinstance(given.get("jobs"), list) else call.body)
    assert call.raw is not None
    jobs = well_formed(given["jobs"], call.raw, trace_of(call.request.headers))
    call.body = shell
    made = _under_lease(call, id, lambda store, lease: report.children(store, call.project_id, lease, jobs))
    return bulk_answer(list(enumerate(made)), {})


@operation(body=ParentsIn, answers={200: ParentsOut})
def parents(call: Call, id: str) -> Answer:
    """Read what the jobs that this one depended on (of a batch's callback: its members) returned.

    An answer holds at most 200, or 3 MB; an empty one is the end.
    """
    after, limit = call.body.get("after") or report.NIL, call.body.get("limit", limits.PAGE_ROWS[1])
    found = _under_lease(call, id, lambda store, lease: report.parents(store, lease, after=after, limit=limit))
    items = [with_json({"id": one.job_id, "state": one.state}, result=one.result) for one in found]
    return Answer(f'{{"items":[{",".join(items)}]}}')


def _under_lease(call: Call, id: str, work: Callable[[PostgresStore, Lease], T]) -> T:
    lease = Lease(path_id("job", id), call.body["lease_token"])

    def guarded(store: PostgresStore) -> T:
        try:
            return work(store, *own(store, call.project_id, [lease]))
        except LeaseLost:
            row_of(store, call.project_id, lease.job_id)  # NotFound if the project has no such job
            raise

    done: T = call.database.run(guarded)
    return done


def _limited(field: str, value: Any) -> str:
    text = keys.compact_json(value)
    if len(text.encode("utf-8", "surrogatepass")) > limits.RESULT_BYTES:
        raise PayloadTooLarge(f"{field}: is over {limits.RESULT_BYTES:,} bytes: store large data elsewhere and keep where it is")
    return text
