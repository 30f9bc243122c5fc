"""GET /v1/jobs: which index to walk, and how far.

`sort=created_at` (the default is its descending form) lists all jobs, in the order of their ids, which is the order of
creation. `sort=run_at` lists the jobs that wait for their time (scheduled and queued), `sort=finalized_at` those that have
ended: a job without the sort key is not in that list. A page looks at no more than 5,000 rows of the index that it walks: it
may end early, even empty, with a `next_cursor` that goes on; null means that there is no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.http import pages
from tidemill.http.fields import CLOSED, Id, Instant, Key, Name, Tag, id_of, text_of
from tidemill.http.job_view import job_json
from tidemill.http.models.jobs import Job, State
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.queries import Cursor, Limit, Whole
from tidemill.store.lists import Place
from tidemill.store.postgres import PostgresStore

CHUNK: Final = 500
PAYLOADS_AT_ONCE: Final = 16
KEYED: Final = {"batch_id": "batch", "principal_id": "principal", "correlation_id": "correlation", "fingerprint": "fingerprint"}
REMEMBERED: Final = {"pending": "waiting", "cancelled": "cancelled", "dead_letter": "dead_letter", "quarantined": "quarantined"}


class JobsQuery(TypedDict):
    """Filters, all of which must match."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    limit: NotRequired[Limit]
    cursor: NotRequired[Cursor]
    queue: NotRequired[Name]
    job_type: NotRequired[Name]
    job_type_prefix: NotRequired[Name]
    state: NotRequired[list[State | Literal["retrying"]]]
    tag: NotRequired[Annotated[list[Tag], Field(max_length=limits.TAGS)]]
    any_tag: NotRequired[Annotated[list[Tag], Field(max_length=limits.TAGS)]]
    partition_key: NotRequired[Key]
    rate_class: NotRequired[Name]
    priority: NotRequired[Annotated[int, Whole, Field(ge=limits.PRIORITY[0], le=limits.PRIORITY[1])]]
    fingerprint: NotRequired[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]
    batch_id: NotRequired[Id]
    scheduled_job_id: NotRequired[Id]
    worker_id: NotRequired[Id]
    principal_id: NotRequired[Key]
    correlation_id: NotRequired[Key]
    error_class: NotRequired[Annotated[str, Field(min_length=1, max_length=limits.ERROR_CLASS_CHARS)]]
    created_after: NotRequired[Instant]
    created_before: NotRequired[Instant]
    q: NotRequired[Key]
    sort: NotRequired[Literal["created_at", "-created_at", "run_at", "-run_at", "finalized_at", "-finalized_at"]]
    include: NotRequired[Literal["payload"]]


class JobsPage(TypedDict):
    """A page of jobs."""

    items: list[Job]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Walk:
    """An index to walk: `lists/<name>`, its parameters."""

    name: str
    descending: bool
    values: Mapping[str, Any]


@operation(query=JobsQuery, answers={200: JobsPage}, etag=True)
def list_jobs(call: Call) -> Answer:
    """List jobs. A page may end early with a `next_cursor`; null means that there is no more.

    `sort=run_at` lists what waits for its time, `sort=finalized_at` what has ended; `q` is an id or an exact idempotency key.
    """
    query = call.query
    walk, filters = walk_of(query), filters_of(query)
    cursors = pages.cursors_of(call, "jobs")
    start = pages.start_of(call, cursors)
    after = Place(datetime.fromisoformat(start[0]) if start[0] else None, start[1]) if start else None
    payload = query.get("include") == "payload"

    def work(store: PostgresStore) -> Answer:
        found, more = _page(store, call.project_id, walk, filters, after, pages.size_of(call))
        shown = _shown(store, call.project_id, found, payload=payload)
        return pages.answer(shown, cursors, more=_position(more) if more else None)

    answer: Answer = call.database.run(work)
    return answer


def walk_of(query: Mapping[str, Any]) -> Walk:
    """The narrowest index that holds everything the query can match, in its order."""
    sort = query.get("sort", "-created_at")
    descending = sort.startswith("-")
    match sort.removeprefix("-"):
        case "run_at":
            return Walk("waiting", descending, {"queue": query.get("queue")})
        case "finalized_at":
            return Walk("ended", descending, {})
        case _:
            name, values = _narrowest(query)
            return Walk(name, descending, {**values, **_id_bounds(query)})


def filters_of(query: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of lists/matching."""
    plain = ("queue", "job_type", "job_type_prefix", "partition_key", "rate_class", "priority", "fingerprint")
    more = ("batch_id", "scheduled_job_id", "worker_id", "principal_id", "correlation_id", "error_class", "created_after", "created_before")
    states = query.get("state") or []
    named = sorted({state for state in states if state != "retrying"})
    return {
        **{name: query.get(name) for name in (*plain, *more)},
        "states": named or None,
        "retrying": "retrying" in states,
        "tags": query.get("tag"),
        "any_tags": query.get("any_tag"),
    }


def _narrowest(query: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    states = set(query.get("state") or ())
    if "q" in query:
        return "named", {"value": query["q"], "id": id_of(query["q"])}
    for name, walk in KEYED.items():
        if name in query:
            return walk, {"value": query[name]}
    if "worker_id" in query or (states and states <= {"claimed", "running"}):
        return "leased", {}
    if states and states <= set(REMEMBERED):
        return "phases", {"phases": sorted(REMEMBERED[state] for state in states)}
    return "created", {}


def _id_bounds(query: Mapping[str, Any]) -> dict[str, Any]:
    """What the creation times say about ids (which carry milliseconds); lists/matching is exact."""

    def at(name: str, offset_ms: int, fill: str) -> str | None:
        if name not in query:
            return None
        instant = datetime.fromisoformat(query[name]) - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
        digits = f"{max(0, instant // timedelta(milliseconds=1) + offset_ms):012x}" + fill * 20
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    return {"low": at("created_after", -1, "0"), "high": at("created_before", 1, "f")}


def _page(
    store: PostgresStore, project_id: str, walk: Walk, filters: Mapping[str, Any], after: Place | None, size: int
) -> tuple[list[Place], Place | None]:
    """At most `size` matching places, and where to go on if there may be more."""
    found: list[Place] = []
    scanned = 0
    chunk = min(size + 1, CHUNK)
    while True:
        limit = min(chunk, limits.SCAN_ROWS - scanned)
        places = store.walk(walk.name, project_id, after, descending=walk.descending, limit=limit, values=walk.values)
        by_id = {place.id: place for place in places}
        for job_id in store.matching(project_id, list(by_id), filters) if places else ():
            if len(found) == size:
                return found, found[-1]
            found.append(by_id[job_id])
        scanned += len(places)
        if len(places) < limit:
            return found, None
        after = places[-1]
        if scanned >= limits.SCAN_ROWS:
            return found, after
        chunk = CHUNK


def _shown(store: PostgresStore, project_id: str, places: list[Place], *, payload: bool) -> Iterator[tuple[str, pages.Position]]:
    """The jobs' JSON, fetched a few at a time where they are large, so that a page's end is also the end of the fetching."""
    step = PAYLOADS_AT_ONCE if payload else len(places) or 1
    for begin in range(0, len(places), step):
        part = {place.id: place for place in places[begin : begin + step]}
        for row in store.jobs_by_id(project_id, list(part), payload=payload):
            text = job_json(row, payload=row["payload"]) if payload else job_json(row)
            yield text, _position(part[row["id"]])


def _position(place: Place) -> list[Any]:
    return [text_of(place.key) if place.key else None, place.id]
