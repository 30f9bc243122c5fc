"""GET /v1/snapshot: the dashboard's four lists in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.domain.errors import Fault, Invalid
from tidemill.http.fields import CLOSED
from tidemill.http.job_view import Row, job_json, with_json
from tidemill.http.models.jobs import Count, Job
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.queries import Whole
from tidemill.store.postgres import PostgresStore

LISTS: Final = ("enqueued", "running", "completed", "failed")
PER_PAGE: Final = 20
COMPLETED_HOURS: Final = 24
FAILED_HOURS: Final = 7 * 24
COUNTED: Final = 1_001
"""A list is counted up to this; from there on the count is called approximate."""

PageNumber = Annotated[int, Whole, Field(ge=1, le=limits.SCAN_ROWS)]


@with_config(CLOSED)
class SnapshotQuery(TypedDict):
    """A page of each list, from 1, and how many jobs a page has."""

    enqueued_page: NotRequired[PageNumber]
    running_page: NotRequired[PageNumber]
    completed_page: NotRequired[PageNumber]
    failed_page: NotRequired[PageNumber]
    per_page: NotRequired[Annotated[int, Whole, Field(ge=1, le=100)]]


class SnapshotList(TypedDict):
    """A page of one list. `count` is of the whole list, and bounded."""

    items: list[Job]
    page: int
    per_page: int
    has_more: bool
    count: Count


class Snapshot(TypedDict):
    """What waits (the next first), what runs (the youngest first), what completed within a day, what died within a week."""

    enqueued: SnapshotList
    running: SnapshotList
    completed: SnapshotList
    failed: SnapshotList


@operation(query=SnapshotQuery, answers={200: Snapshot}, etag=True)
def snapshot(call: Call) -> Answer:
    """Show the dashboard: waiting, running, completed of the last 24 hours, dead of the last 7 days."""
    per_page: int = call.query.get("per_page", PER_PAGE)
    numbers: dict[str, int] = {name: call.query.get(f"{name}_page", 1) for name in LISTS}
    most = limits.SCAN_ROWS // per_page
    if far := [name for name, number in numbers.items() if number > most]:
        text = (
            f"is beyond page {most:,} of {per_page} jobs each: a snapshot shows the first {limits.SCAN_ROWS:,}; use GET /v1/jobs for more"
        )
        raise Invalid([Fault(("query", f"{name}_page"), text) for name in far])

    def work(store: PostgresStore) -> str:
        ways = _ways(store, call.project_id)
        found = {name: ways[name](numbers[name] * per_page + 1) for name in LISTS}
        counts = store.snapshot_counts(call.project_id, completed_hours=COMPLETED_HOURS, failed_hours=FAILED_HOURS, most=COUNTED)
        pages = {name: found[name][(numbers[name] - 1) * per_page : numbers[name] * per_page] for name in LISTS}
        jobs = {row["id"]: row for row in store.jobs_by_id(call.project_id, list({job_id for page in pages.values() for job_id in page}))}
        texts = {}
        for name in LISTS:
            has_more = len(found[name]) > numbers[name] * per_page
            items = [jobs[job_id] for job_id in pages[name] if job_id in jobs]
            texts[name] = _list(items, numbers[name], per_page, counts[name], has_more=has_more)
        return with_json({}, **texts)

    return Answer(call.database.run(work))


def _ways(store: PostgresStore, project_id: str) -> dict[str, Callable[[int], list[str]]]:
    """How to find the first so many ids of each list."""

    def walked(name: str, values: Row, *, descending: bool) -> Callable[[int], list[str]]:
        return lambda limit: [place.id for place in store.walk(name, project_id, None, descending=descending, limit=limit, values=values)]

    return {
        "enqueued": walked("waiting", {"queue": None}, descending=False),
        "running": walked("leased", {"low": None, "high": None}, descending=True),
        "completed": lambda limit: store.completed_ids(project_id, COMPLETED_HOURS, limit),
        "failed": lambda limit: store.failed_ids(project_id, FAILED_HOURS, limit),
    }


def _list(items: list[Row], page: int, per_page: int, count: int, *, has_more: bool) -> str:
    fields = {"page": page, "per_page": per_page, "has_more": has_more, "count": {"count": count, "approximate": count >= COUNTED}}
    return with_json(fields, items=f"[{','.join(map(job_json, items))}]")
