"""A job's story, from its rows: nothing is written for it while the job runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from tidemill.http.job_view import Row, instant

_BY_HAND: Final = {"jobs.edit": "edited", "jobs.promote": "promoted", "jobs.reschedule": "rescheduled", "jobs.rerun": "rerun"}
"""What an operator did and no other row tells."""

_AFTER: Final = {"completed": "completed", "cancelled": "cancelled"}


def timeline(job: Row, executions: list[Row], deaths: list[Row], notes: Sequence[Row] = ()) -> list[Row]:
    """Events, the oldest first: created, started and the attempts' ends, dead_letter and retried, and how it stands now.

    notes: the audit log's of the job: who edited, promoted, rescheduled or copied it.
    """
    found: list[tuple[datetime, int, Row]] = []

    def add(at: datetime | None, event: str, **more: Any) -> None:
        if at is not None:
            empty = {"state": None, "attempt": None, "worker_id": None, "detail": None}
            found.append((at, len(found), {"at": instant(at), "event": event, **empty, **more}))

    add(job["created_at"], "created")
    for run in executions:
        who = {"attempt": run["attempt"], "worker_id": run["worker_id"]}
        add(run["started_at"], "started", state="running", **who)
        add(run["finished_at"], run["status"], state=_AFTER.get(run["status"]), detail=_error(run), **who)
    for death in deaths:
        add(death["moved_at"], "dead_letter", state="dead_letter", attempt=death["attempt_count"], detail=death["failure_reason"])
        if death["resolution_action"] is not None:
            event = "retried" if death["resolution_action"] == "retry" else "discarded"
            add(death["resolved_at"], event, state="queued" if event == "retried" else None)
    for note in notes:
        if note["action"] in _BY_HAND:
            add(note["at"], _BY_HAND[note["action"]], detail=_by(note))
    if job["claimed_at"] is not None:
        who = {"attempt": job["attempt_count"], "worker_id": job["worker_id"]}
        add(job["claimed_at"], "claimed", state="claimed", **who)
        add(job["started_at"], "started", state="running", **who)
        add(job["cancel_requested_at"], "cancel_requested", state=job["state"], **who)
    if job["state"] == "cancelled" and not (executions and executions[-1]["finished_at"] == job["finalized_at"]):
        add(job["finalized_at"], "cancelled", state="cancelled", detail=job["final_reason"])
    found.sort(key=lambda entry: entry[:2])
    return [event for _, _, event in found]


def _error(run: Row) -> str | None:
    if run["error_class"] is None:
        return None
    return f"{run['error_class']}: {run['error_message'] or ''}"[:500]


def _by(note: Row) -> str:
    """Who did it, and which fields differ since."""
    before, after = note["before"] or {}, note["after"] or {}
    changed = sorted(name for name in after if name in before and before[name] != after[name] and name not in ("updated_at", "state"))
    return f"by {note['actor'] or note['actor_kind']}" + (f": {', '.join(changed)}" if changed else "")
