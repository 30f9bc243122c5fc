"""Every failure as `application/problem+json` (RFC 9457), API.md §0. The one place that knows statuses."""

from __future__ import annotations

import json
from typing import Any, Final

from tidemill.domain.errors import Internal, Invalid, TidemillError, dotted

CONTENT_TYPE: Final = "application/problem+json"
MOST_ERRORS: Final = 1_000

STATUSES: Final[dict[str, tuple[int, str]]] = {
    "malformed_body": (400, "The body is not JSON"),
    "unauthenticated": (401, "No valid credentials"),
    "forbidden": (403, "Not allowed with these credentials"),
    "not_found": (404, "Not found"),
    "method_not_allowed": (405, "Method not allowed"),
    "invalid_transition": (409, "The job's state does not allow this"),
    "lease_lost": (409, "The lease is lost"),
    "unique_conflict": (409, "The unique key is held"),
    "idempotency_conflict": (409, "The idempotency key belongs to another request"),
    "queue_not_empty": (409, "The queue is not empty"),
    "plan_drifted": (409, "The plan has drifted"),
    "conflict": (409, "Conflict"),
    "payload_too_large": (413, "Too large"),
    "unsupported_media_type": (415, "Unsupported media type"),
    "validation_error": (422, "Invalid fields"),
    "queue_full": (429, "The queue is full"),
    "throttled": (429, "Too many requests"),
    "internal": (500, "Internal error"),
    "unavailable": (503, "Unavailable at the moment"),
}


def status_of(error: TidemillError) -> int:
    """The HTTP status of an error; one without a status of its own is ours: 500."""
    return STATUSES.get(error.code, STATUSES["internal"])[0]


def body_of(error: TidemillError, request_id: str) -> str:
    """The problem as JSON text."""
    if error.code not in STATUSES:
        error = Internal("something went wrong on our side; the request id finds it in the log")
    status, title = STATUSES[error.code]
    problem: dict[str, Any] = {
        "type": f"urn:tidemill:problem:{error.code}",
        "title": title,
        "status": status,
        "detail": error.detail,
        "code": error.code,
        "errors": [],
        "request_id": request_id,
    }
    if isinstance(error, Invalid):
        problem["errors"] = [{"loc": list(fault.loc), "msg": fault.msg} for fault in error.faults[:MOST_ERRORS]]
        problem["detail"] = f"{dotted(error.faults[0].loc)}: {error.faults[0].msg}" if error.faults else error.detail
    for name in ("job_id", "holder_id", "state", "part", "hint"):
        if isinstance(value := getattr(error, name, None), str):
            problem[name] = value
    return json.dumps(problem, ensure_ascii=True, separators=(",", ":"))


def headers_of(error: TidemillError) -> dict[str, str]:
    """What goes into the head besides the content type."""
    if error.retry_after_secs is not None:
        return {"retry-after": str(error.retry_after_secs)}
    if error.code == "unauthenticated":
        return {"www-authenticate": "Bearer"}
    return {}
