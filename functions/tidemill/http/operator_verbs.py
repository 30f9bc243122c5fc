"""What an operator does to one job. Each answers the job as it stands afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from tidemill.domain import keys, limits
from tidemill.domain.errors import PayloadTooLarge
from tidemill.domain.jobs import Edit
from tidemill.engine import operate
from tidemill.engine.enqueue import rerun as fresh_copy
from tidemill.http.fields import CLOSED, Instant, Int32, Priority, Tags
from tidemill.http.job_detail import detail, row_of
from tidemill.http.job_view import Row, instant, job_json
from tidemill.http.jobs import TOO_LARGE
from tidemill.http.models.jobs import Created, JobDetail
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import path_id
from tidemill.store.postgres import PostgresStore

TOLD: Final = (
    "job_type", "queue", "state", "priority", "run_at", "tags", "schema_version", "attempt_count", "cancel_requested_at", "final_reason",
    "payload",
)  # fmt: skip
"""Of a job, for the audit log (which leaves the payload's value out)."""


@with_config(CLOSED)
class NothingIn(TypedDict):
    """No fields."""


@with_config(CLOSED)
class CancelIn(TypedDict, total=False):
    """`force` ends a running job's lease at once; without it its worker is asked to stop."""

    force: bool


@with_config(CLOSED)
class RescheduleIn(TypedDict):
    """When the job is to be due; a time behind the clock means now."""

    run_at: Instant


@with_config(CLOSED)
class EditFields(TypedDict, total=False):
    """What to change; what is left out stays."""

    payload: Any
    priority: Priority
    tags: Tags
    schema_version: Int32


def _some(given: dict[str, Any]) -> dict[str, Any]:
    if not given:
        raise PydanticCustomError("nothing", "give at least one of payload, priority, tags, schema_version")
    return given


EditIn = Annotated[EditFields, AfterValidator(_some)]


@operation(body=CancelIn, body_optional=True, answers={200: JobDetail})
def cancel(call: Call, id: str) -> Answer:
    """Cancel a job. A running one is asked to stop (its completion may still win) unless forced."""
    force = call.body.get("force", False)
    return _moved(call, id, lambda store, job_id: operate.cancel(store, call.project_id, job_id, force=force, roll=random.random))


@operation(body=NothingIn, body_optional=True, answers={200: JobDetail})
def retry(call: Call, id: str) -> Answer:
    """Put a dead job back at its first attempt. 409 `unique_conflict` if its unique key is held again."""
    return _moved(call, id, lambda store, job_id: operate.retry(store, call.project_id, job_id, by=call.principal.id))


@operation(body=NothingIn, body_optional=True, answers={200: JobDetail})
def promote(call: Call, id: str) -> Answer:
    """Let a pending job go, or make a scheduled one due now."""
    return _moved(call, id, lambda store, job_id: operate.promote(store, call.project_id, job_id))


@operation(body=RescheduleIn, answers={200: JobDetail})
def reschedule(call: Call, id: str) -> Answer:
    """Set when a waiting job is due."""
    run_at = datetime.fromisoformat(call.body["run_at"])
    return _moved(call, id, lambda store, job_id: operate.reschedule(store, call.project_id, job_id, run_at))


@operation(body=NothingIn, body_optional=True, answers={201: Created})
def rerun(call: Call, id: str) -> Answer:
    """Create a fresh copy of a job, due now, without its keys."""
    job_id = path_id("job", id)

    def work(store: PostgresStore) -> str:
        made = fresh_copy(store, call.project_id, job_id)
        assert made.job_id is not None
        call.note("job", job_id, after={"copy": made.job_id})
        return job_json(row_of(store, call.project_id, made.job_id))

    return Answer(f'{{"job":{call.database.run(work)},"deduplicated":false}}', 201)


@operation(body=EditIn, answers={200: JobDetail})
def edit(call: Call, id: str) -> Answer:
    """Change what a job carries, unless it is leased or has ended for good."""
    given = call.body
    payload = keys.compact_json(given["payload"]) if "payload" in given else None
    if payload is not None and len(payload.encode("utf-8", "surrogatepass")) > limits.PAYLOAD_BYTES:
        raise PayloadTooLarge(f"payload: {TOO_LARGE}")
    change = Edit(payload, given.get("priority"), given.get("tags"), given.get("schema_version"))
    return _moved(call, id, lambda store, job_id: operate.edit(store, call.project_id, job_id, change))


@operation(answers={204: None})
def delete(call: Call, id: str) -> Answer:
    """Remove a job that is not leased, with its history."""
    job_id = path_id("job", id)

    def work(store: PostgresStore) -> None:
        before = told(row_of(store, call.project_id, job_id))
        operate.delete(store, call.project_id, job_id)
        call.note("job", job_id, before=before)

    call.database.run(work)
    return Answer("", 204)


def told(row: Row) -> Row:
    """What the audit log keeps of a job from a row of jobs/by_id."""
    return {name: instant(row[name]) if name.endswith("_at") else row[name] for name in TOLD}


def _moved(call: Call, id: str, verb: Callable[[PostgresStore, str], object]) -> Answer:
    job_id = path_id("job", id)

    def work(store: PostgresStore) -> str:
        before = told(row_of(store, call.project_id, job_id, payload=True))
        verb(store, job_id)
        call.note("job", job_id, before=before, after=told(row_of(store, call.project_id, job_id, payload=True)))
        return detail(store, call.project_id, job_id)

    return Answer(call.database.run(work))
