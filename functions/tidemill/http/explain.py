"""Why is my job not running?"""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from tidemill.engine import explain as engine
from tidemill.http.fields import Instant
from tidemill.http.job_view import instant
from tidemill.http.models.jobs import State
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import path_id

Reason = Literal[
    "final",
    "leased",
    "dependencies",
    "held",
    "schedule",
    "quarantine",
    "queue_paused",
    "queue_concurrency",
    "concurrency_key",
    "rate_class",
    "sticky_worker",
    "no_live_worker",
]


class Blocked(TypedDict):
    """One reason, with its evidence in words; `clears_at` where that is known."""

    reason: Reason
    since: Instant | None
    detail: str
    clears_at: Instant | None


class ExplainAnswer(TypedDict):
    """`blocked_by` in the order in which the claim asks; empty for a queued job: the next claim of an otherwise idle queue takes it.

    `notes`: what holds nothing back although it may look so, such as a rate class that does not exist.
    """

    state: State
    admissible: bool
    blocked_by: list[Blocked]
    position: int | None
    estimated_start_at: Instant | None
    notes: list[str]


@operation(answers={200: ExplainAnswer})
def explain(call: Call, id: str) -> Answer:
    """Explain why a job does not run, from what the claim itself reads. `position` counts jobs in front of it in its lane, up to 1,000."""
    job_id = path_id("job", id)
    found = call.database.run(lambda store: engine.explain(store, call.project_id, job_id))
    blocked = [
        {"reason": b.reason, "since": instant(b.since), "detail": b.detail, "clears_at": instant(b.clears_at)} for b in found.blocked_by
    ]
    return Answer(
        {
            "state": found.state,
            "admissible": found.admissible,
            "blocked_by": blocked,
            "position": found.position,
            "estimated_start_at": instant(found.estimated_start_at),
            "notes": list(found.notes),
        }
    )
