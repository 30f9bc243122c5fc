"""Payloads kept from a role: what jobs carry and what handlers say is null in every answer; names, states, times and counts stay."""

from __future__ import annotations

import json
from typing import Any, Final

from tidemill.http.operation import Answer

CARRIED: Final = frozenset(
    {
        "payload", "headers", "result", "checkpoint", "checkpoint_cursor", "output", "data",
        "message", "stack", "traceback", "error_message", "failure_reason", "masked_message", "sample_message",
    }
)  # fmt: skip
"""Members with these names, wherever they are: inputs, outputs, and texts that handlers write (log lines, errors, progress)."""


def without_payloads(answer: Answer) -> Answer:
    """The answer with null in place of what is carried. Applies to every route, so that none can forget it."""
    if not answer.content_type.startswith("application/json"):
        return answer
    text = answer.text()
    return Answer(_bare(json.loads(text)), answer.status, answer.headers, answer.content_type) if text else answer


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        hidden = CARRIED | {"detail"} if "event" in value else CARRIED  # an event of a timeline quotes the error
        return {name: None if name in hidden else _bare(inner) for name, inner in value.items()}
    return [_bare(inner) for inner in value] if isinstance(value, list) else value
