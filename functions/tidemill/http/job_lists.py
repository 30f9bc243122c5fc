"""GET /v1/jobs: which index to walk, and how far.

`sort=created_at` (the default is its descending form) lists all jobs, in the order of their ids, which is the order of
creation. `sort=run_at` lists the jobs that wait for their time (scheduled and queued), `sort=finalized_at` those that have
ended: a job without the sort key is not in that list. A page looks at no more than 2,500 rows of the index that it walks: it
may end early, even empty, with a `next_cursor` that goes on; null means that there is no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from tidemill.http import pages
from tidemill.http.fields import text_of
from tidemill.http.job_view import job_json
from tidemill.http.models.job_filter import JobFilter
from tidemill.http.models.jobs import Job
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.queries import Cursor, Limit
from tidemill.http.scans import scanned
from tidemill.store.job_filters import Walk, filters_of, walk_of
from tidemill.store.lists import Place
from tidemill.store.postgres import PostgresStore

PAYLOADS_AT_ONCE: Final = 16


class JobsQuery(JobFilter):
    """Filters, all of which must match."""

    limit: NotRequired[Limit]
    cursor: NotRequired[Cursor]
    sort: NotRequired[Literal["created_at", "-created_at", "run_at", "-run_at", "finalized_at", "-finalized_at"]]
    include: NotRequired[Literal["payload"]]


class JobsPage(TypedDict):
    """A page of jobs."""

    items: list[Job]
    next_cursor: str | None


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


def _page(
    store: PostgresStore, project_id: str, walk: Walk, filters: Mapping[str, Any], after: Place | None, size: int
) -> tuple[list[Place], Place | None]:
    """At most `size` matching places, and where to go on if there may be more."""

    def step(behind: Place | None, limit: int) -> list[Place]:
        return store.walk(walk.name, project_id, behind, descending=walk.descending, limit=limit, values=walk.values)

    def matching(places: Sequence[Place]) -> list[Place]:
        by_id = {place.id: place for place in places}
        return [by_id[job_id] for job_id in store.matching(project_id, list(by_id), filters)]

    return scanned(step, matching, after, size)


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
