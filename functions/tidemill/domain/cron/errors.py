"""The one refusal of the cron package: which field, which part of it, why, and what to write instead."""

from __future__ import annotations

from tidemill.domain.errors import Fault, Invalid

MAX_PART_LENGTH = 32
_BESIDE_CRON = frozenset({"timezone", "on_gap", "on_fold", "every_ms", "anchor"})


class CronError(Invalid):
    """A schedule's timing that cannot be accepted. The message never repeats the input; `part` carries a safe excerpt.

    `field`: minute, hour, day-of-month, month, day-of-week, or expression (all of these are the request's `cron`);
    timezone, on_gap, on_fold, every_ms, anchor. `part`: the offending text, at most 32 characters, everything but
    printable ASCII escaped; None when there is none. `reason`: what is wrong, with the bound that was broken.
    `hint`: the way out, or which other dialect it looks like. `faults` holds the same as one fault of the request.
    """

    def __init__(self, field: str, part: str | None, reason: str, hint: str) -> None:
        self.field = field
        self.part = None if part is None else _excerpt(part)
        self.reason = reason
        self.hint = hint
        if field in _BESIDE_CRON:
            super().__init__([Fault((field,), f"{reason}; {hint}")])
        else:
            super().__init__([Fault(("cron",), f"{field} {reason}; {hint}")])


def _excerpt(part: str) -> str:
    shown = part[:MAX_PART_LENGTH].encode("unicode_escape").decode("ascii")
    if len(shown) <= MAX_PART_LENGTH and len(part) <= MAX_PART_LENGTH:
        return shown
    return shown[: MAX_PART_LENGTH - 3] + "..."
