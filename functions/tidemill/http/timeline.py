"""A job's story, from its rows: nothing is written for it while the job runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from tidemill.http.job_view import Row, instant

_AFTER: Final = {"completed": "completed", "cancelled": "cancelled"}


def timeline(job: Row, executions: list[Row], deaths: list[Row]) -> list[Row]:
    """Events, the oldest first: created, started and the attempts' ends, dead_letter and retried, and how it stands now."""
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
