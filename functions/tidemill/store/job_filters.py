"""A job filter as statements take it: an index to walk, and the parameters of lists/matching. Without pydantic, for the scheduler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from tidemill.domain import limits

_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
KEYED: Final = {
    "error_group": "error_group", "batch_id": "batch", "scheduled_job_id": "schedule", "principal_id": "principal",
    "correlation_id": "correlation", "fingerprint": "fingerprint",
}  # fmt: skip
REMEMBERED: Final = {"pending": "waiting", "cancelled": "cancelled", "dead_letter": "dead_letter", "quarantined": "quarantined"}


@dataclass(frozen=True, slots=True)
class Walk:
    """An index to walk: `lists/<name>`, its parameters."""

    name: str
    descending: bool
    values: Mapping[str, Any]


def walk_of(query: Mapping[str, Any]) -> Walk:
    """The narrowest index that holds everything the query can match, in its order."""
    sort = query.get("sort", "-created_at")
    descending = sort.startswith("-")
    match sort.removeprefix("-"):
        case "run_at":
            return Walk("waiting", descending, {"queue": query.get("queue")})
        case "finalized_at":
            return Walk("ended", descending, {})
        case _:
            name, values = _narrowest(query)
            return Walk(name, descending, {**values, **_id_bounds(query)})


def filters_of(query: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of lists/matching."""
    plain = (
        "queue", "job_type", "job_type_prefix", "partition_key", "rate_class", "priority", "fingerprint", "batch_id", "scheduled_job_id",
        "worker_id", "principal_id", "correlation_id", "error_class", "error_group", "created_after", "created_before",
    )  # fmt: skip
    states = query.get("state") or []
    named = sorted({state for state in states if state != "retrying"})
    return {
        **{name: query.get(name) for name in plain},
        "states": named or None,
        "retrying": "retrying" in states,
        "tags": query.get("tag"),
        "any_tags": query.get("any_tag"),
    }


def _narrowest(query: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    states = set(query.get("state") or ())
    if "q" in query:
        return "named", {"value": query["q"], "id": query["q"].lower() if _ID.fullmatch(query["q"]) else None}
    for name, walk in KEYED.items():
        if name in query:
            return walk, {"value": query[name]}
    if "worker_id" in query or (states and states <= {"claimed", "running"}):
        return "leased", {}
    if states and states <= set(REMEMBERED):
        return "phases", {"phases": sorted(REMEMBERED[state] for state in states)}
    if states and states <= {"scheduled", "queued", "retrying"}:
        return "entered", {"few": limits.SCAN_ROWS}
    return "created", {}


def _id_bounds(query: Mapping[str, Any]) -> dict[str, Any]:
    """What the creation times say about ids (which carry milliseconds); lists/matching is exact."""

    def at(name: str, offset_ms: int, fill: str) -> str | None:
        if name not in query:
            return None
        instant = datetime.fromisoformat(query[name]) - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
        digits = f"{max(0, instant // timedelta(milliseconds=1) + offset_ms):012x}" + fill * 20
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    return {"low": at("created_after", -1, "0"), "high": at("created_before", 1, "f")}
