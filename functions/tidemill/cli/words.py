"""What a bulk operation would touch or has done, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_WILL: Final = {
    "retry": "Puts {jobs} back at their first attempt.",
    "cancel": "Cancels {jobs}; those that run are asked to stop.",
    "delete": "Deletes {jobs}, with their history and for good.",
    "discard": "Discards {jobs}.",
    "promote": "Lets {jobs} go now.",
    "remove_queue": "Deletes {jobs} and removes their queue, for good.",
}
_DID: Final = {
    "retry": "retried", "cancel": "cancelled or asked to stop", "delete": "deleted", "discard": "discarded", "promote": "let go",
    "remove_queue": "deleted",
}  # fmt: skip


def touched(found: Mapping[str, Any]) -> str:
    """What applying the plan would do."""
    estimate = found["estimate"]
    count = f"{'at least ' * estimate['approximate']}{estimate['count']:,} job{'s' * (estimate['count'] != 1)}"
    if not estimate["count"]:
        return f"No job matches that {found['action']} could touch."
    return _WILL[found["action"]].format(jobs=count + _where(found["filter"]))


def summary(found: Mapping[str, Any]) -> str:
    """Where the operation stands."""
    undo = found.get("undo")
    if undo:
        left = f", {undo['skipped']:,} left alone{_reasons(undo['skips'])}" if undo["skipped"] else ""
        return f"{found['status']}: {undo['restored']:,} put back{left}"
    done = f"{found['affected']:,} {_DID[found['action']]}"
    left = f", {found['skipped']:,} left alone{_reasons(found['skips'])}" if found["skipped"] else ""
    return found["status"] if found["status"] == "planned" else f"{found['status']}: {done}{left}"


def _reasons(skips: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{reason} {count:,}' for reason, count in skips.items())})" if skips else ""


def _where(conditions: Mapping[str, Any]) -> str:
    parts = [f"{name} {' or '.join(value) if isinstance(value, list) else value}" for name, value in conditions.items()]
    return f" ({', '.join(parts)})" if parts else ""
