"""A stored job as the API shows it. JSON columns pass through as text, so that numbers stay exact."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tidemill.domain import transitions
from tidemill.domain.transitions import State
from tidemill.http.fields import text_of

Row = dict[str, Any]


def instant(value: datetime | None) -> str | None:
    """An instant as the API writes it."""
    return text_of(value) if value is not None else None


def with_json(fields: Row, **texts: str | None) -> str:
    """`fields` as a JSON object, with members whose values are JSON text already (None: null)."""
    head = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    tail = ",".join(f'"{name}":{text if text is not None else "null"}' for name, text in texts.items())
    return f"{head[:-1]}{',' if fields and texts else ''}{tail}}}"


def job_json(row: Row, **more: str | None) -> str:
    """JSON text of a job from a row of jobs/by_id; `more`: members that are JSON text already."""
    state = State(row["state"])
    lease = None
    if row["lease_expires_at"] is not None:
        lease = {
            "worker_id": row["worker_id"],
            "claimed_at": instant(row["claimed_at"]),
            "started_at": instant(row["started_at"]),
            "lease_expires_at": instant(row["lease_expires_at"]),
            "cancel_requested_at": instant(row["cancel_requested_at"]),
        }
    fields = {
        "id": row["id"],
        "job_type": row["job_type"],
        "queue": row["queue"],
        "state": state.value,
        **{name: row[name] for name in ("priority", "attempt_count", "max_attempts", "fence", "schema_version", "is_held")},
        "run_at": instant(row["run_at"]),
        "idempotency_key": row["idempotency_key"],
        "unique": {"window": row["unique_window"], "until": instant(row["unique_until"])} if row["unique_window"] else None,
        "concurrency": {"limit": row["concurrency_limit"], "key": row["concurrency_key"]} if row["concurrency_limit"] else None,
        **{name: row[name] for name in ("timeout_ms", "partition_key", "weight", "rate_class", "sticky_worker", "fingerprint")},
        "tags": row["tags"] or [],
        **{name: row[name] for name in ("principal_id", "correlation_id", "traceparent", "tracestate", "batch_id", "scheduled_job_id")},
        "on_parent_failure": row["on_parent_failure"] or "cancel",
        "pending_parents": row["pending_parents"],
        "scheduled_for": instant(row["scheduled_for"]),
        "crash_count": row["crash_count"],
        "progress": _progress(row),
        "error": {"class": row["error_class"], "message": row["error_message"]} if row["error_class"] or row["error_message"] else None,
        "reason": row["final_reason"],
        "lease": lease,
        "retention_ms": row["retention_ms"],
        **{name: instant(row[name]) for name in ("created_at", "updated_at", "finalized_at")},
        "actions": transitions.actions(state),
    }
    return with_json(fields, headers=row["headers"] or "{}", retry_policy=row["retry_policy"], **more)


def _progress(row: Row) -> Row | None:
    if row["progress_current"] is None and row["progress_message"] is None:
        return None
    return {"current": row["progress_current"], "total": row["progress_total"], "message": row["progress_message"]}
