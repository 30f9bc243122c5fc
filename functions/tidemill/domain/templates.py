"""Payload templates: `{{scheduled_at}}` and `{{schedule}}` in strings are filled in when an occurrence is made."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

from tidemill.domain import limits
from tidemill.domain.keys import compact_json

_PLACE: Final = re.compile(r"\{\{\s*(scheduled_at|schedule)\s*\}\}")
_LONGEST: Final = "x" * limits.NAME_CHARS


def fault_of(template: Any) -> str | None:
    """What is wrong with a payload template; None if every occurrence can be made from it."""
    if not isinstance(template, dict):
        return "must be an object: a schedule's payload is a template"
    size = len(compact_json(_filled(template, {"schedule": _LONGEST, "scheduled_at": _LONGEST[:32]})).encode("utf-8", "surrogatepass"))
    return f"is over {limits.PAYLOAD_BYTES:,} bytes once filled in" if size > limits.PAYLOAD_BYTES else None


def fill(template: Any, *, schedule: str, scheduled_at: datetime) -> Any:
    """The payload of one occurrence. Other braces stay as they are, and so do keys; the template is not changed."""
    return _filled(template, {"schedule": schedule, "scheduled_at": instant_text(scheduled_at)})


def instant_text(instant: datetime) -> str:
    """RFC 3339 in UTC with as few digits as it needs: 2027-01-31T09:00:00Z."""
    digits = "microseconds" if instant.microsecond % 1_000 else "milliseconds" if instant.microsecond else "seconds"
    return instant.astimezone(UTC).isoformat(timespec=digits).replace("+00:00", "Z")


def _filled(value: Any, words: dict[str, str]) -> Any:
    match value:
        case str():
            return _PLACE.sub(lambda place: words[place[1]], value) if "{{" in value else value
        case list():
            return [_filled(item, words) for item in value]
        case dict():
            return {key: _filled(item, words) for key, item in value.items()}
        case _:
            return value
