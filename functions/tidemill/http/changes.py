"""GET /v1/changes: what the page and others follow instead of reading lists again and again.

A look costs one statement that reads the young ends of indexes; between the looks of a waiting call no transaction is open.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated, Any, Final, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.domain.errors import Fault, Invalid
from tidemill.http.cursors import Cursors
from tidemill.http.fields import CLOSED, Id, text_of
from tidemill.http.models.jobs import State
from tidemill.http.models.stats import States
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.queries import Cursor, Whole
from tidemill.http.stats import counted
from tidemill.store.changes import Changes, Mark
from tidemill.store.postgres import PostgresStore

COUNTED: Final = 1_000

PAUSE_MS: Final = (250, 1_000)
"""Between the looks of a waiting call: the first pause, and the longest."""

RESERVE_MS: Final = 2_000
"""What a waiting call leaves of the function's time."""


@with_config(CLOSED)
class ChangesQuery(TypedDict):
    """`since`: the cursor of the last answer; without it the answer is only where to begin. `wait_ms`: how long to wait for a change."""

    since: NotRequired[Cursor]
    wait_ms: NotRequired[Annotated[int, Whole, Field(ge=limits.WAIT_MS[0], le=limits.WAIT_MS[1])]]


class ChangedJob(TypedDict):
    """A job and its state now."""

    id: Id
    state: State


class Glance(TypedDict):
    """How the project stands: jobs by state, each counted up to 1,000, and its live workers. `GET /v1/stats/overview` tells more."""

    states: States
    live_workers: int
    worker_slots: int


class ChangesOut(TypedDict):
    """What is new; something may be told twice, nothing is left out. `truncated`: more has changed than is told, read the lists again."""

    cursor: str
    jobs: list[ChangedJob]
    queues: list[str]
    schedules: list[str]
    workers: list[Id]
    truncated: bool
    overview: Glance | None


@operation(query=ChangesQuery, answers={200: ChangesOut})
def changes(call: Call) -> Answer:
    """Tell what has changed in the project since the cursor of the last answer; with `wait_ms`, as soon as something has."""
    assert call.ring is not None
    cursors = Cursors(call.ring, "changes", call.project_id, {})
    since = _mark(cursors, call.query["since"]) if "since" in call.query else None
    found = call.database.run(lambda store: store.changes(call.project_id, since))
    if since is not None:
        found = _waited(call, since, found, call.query.get("wait_ms", 0))
    return Answer(
        {
            "cursor": cursors.text([text_of(found.mark.at), found.mark.snapshot]),
            "jobs": [{"id": job_id, "state": state} for job_id, state in found.jobs],
            "queues": found.queues,
            "schedules": found.schedules,
            "workers": found.workers,
            "truncated": found.truncated,
            "overview": None if since is not None and found.is_empty else call.database.run(lambda store: _glance(store, call.project_id)),
        }
    )


def _glance(store: PostgresStore, project_id: str) -> dict[str, Any]:
    workers, slots = store.live_workers(project_id)
    states = {row["state"]: counted(int(row["count"]), row["better"], COUNTED) for row in store.states(project_id, most=COUNTED)}
    return {"states": states, "live_workers": workers, "worker_slots": slots}


def _waited(call: Call, since: Mark, found: Changes, wait_ms: int) -> Changes:
    """Looks again until something is certainly new or the time is over; then what there is."""
    left_ms = float(min(wait_ms, call.request.remaining_ms() - RESERVE_MS))
    deadline = time.monotonic() + left_ms / 1000
    pause_ms = float(PAUSE_MS[0])
    while not found.is_sure and left_ms > 0 and time.monotonic() < deadline:
        pause_ms = min(pause_ms, left_ms)
        call.sleep(pause_ms / 1000)
        left_ms -= pause_ms
        found = call.database.run(lambda store: store.changes(call.project_id, since))
        pause_ms = min(pause_ms * 1.5, PAUSE_MS[1])
    return found


def _mark(cursors: Cursors, text: str) -> Mark:
    try:
        position: list[Any] = cursors.position(text)
    except Invalid:
        raise Invalid([Fault(("query", "since"), "is not a cursor of this project's changes: start again without one")]) from None
    return Mark(datetime.fromisoformat(position[0]), position[1])
