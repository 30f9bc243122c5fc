"""Explain: why a job does not run, from what the claim itself reads."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from tidemill.domain.errors import NotFound
from tidemill.domain.explanation import Explanation, Obstacle

AHEAD = 1_000


class ExplainStore(Protocol):
    """Reads a job's obstacles."""

    def obstacles(self, project_id: str, job_id: str, *, now: datetime | None) -> tuple[str, list[Obstacle], list[str]] | None:
        """The job's state, what stands in its way in the claim's order, and what only seems to; None if there is no such job."""

    def ahead_of(self, job_id: str, limit: int) -> int | None:
        """How many entries come before it in its lane, at most `limit`."""


def explain(store: ExplainStore, project_id: str, job_id: str, *, now: datetime | None = None) -> Explanation:
    """The job's state, whether the next claim of an otherwise idle queue takes it, and every reason why not.

    `position` counts the jobs in front of it in its own lane, up to 1,000. `estimated_start_at` is known only where every
    reason says when it clears. NotFound if the project has no such job.
    """
    found = store.obstacles(project_id, job_id, now=now)
    if found is None:
        raise NotFound("job", job_id)
    state, blocked_by, notes = found
    clears = [obstacle.clears_at for obstacle in blocked_by]
    known = [at for at in clears if at is not None]
    return Explanation(
        state=state,
        admissible=state == "queued" and not blocked_by,
        blocked_by=blocked_by,
        position=store.ahead_of(job_id, AHEAD),
        estimated_start_at=max(known) if known and len(known) == len(clears) else None,
        notes=tuple(notes),
    )
