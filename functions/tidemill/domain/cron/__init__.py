"""When schedules fire: cron expressions in time zones, and intervals. Pure: no clock, no state, nothing but the pinned data.

    parse(text, zone) -> Cron     next_after, previous_before, between, upcoming, describe, transitions
    Every(every_ms, anchor)       the same questions for a fixed interval
    CronError                     every refusal, with field, part, reason and hint
    zone_data_release()           which IANA data decides

Inside, from text to instant: grammar (what is accepted) and dialects (what it looks like otherwise), fields (croniter
expands), calendar (local days and minutes), zones and rule (offset changes), firing (gaps, folds, order), words.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidemill.domain.cron.choices import OnFold, OnGap
    from tidemill.domain.cron.cron import HORIZON_YEARS, Cron, parse
    from tidemill.domain.cron.errors import CronError
    from tidemill.domain.cron.every import Every
    from tidemill.domain.cron.timetable import Timetable, Transition
    from tidemill.domain.cron.zones import zone_data_release, zone_names

__all__ = [
    "HORIZON_YEARS",
    "Cron",
    "CronError",
    "Every",
    "OnFold",
    "OnGap",
    "Timetable",
    "Transition",
    "parse",
    "zone_data_release",
    "zone_names",
]

# Most who import the package want an enumeration of it; the rest is loaded by whoever asks for it.
_HOMES: Final = {
    "HORIZON_YEARS": "cron",
    "Cron": "cron",
    "CronError": "errors",
    "Every": "every",
    "OnFold": "choices",
    "OnGap": "choices",
    "Timetable": "timetable",
    "Transition": "timetable",
    "parse": "cron",
    "zone_data_release": "zones",
    "zone_names": "zones",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
