"""Time zones as lists of offset changes, read from the pinned `tzdata` package and from nothing else.

The standard library's `ZoneInfo(name)` asks the operating system first, and its files may be years older than the code.
Here the compiled TZif files (RFC 9636) come out of the package's own resources, so every deployable that carries the
same lock file computes the same instants. Nothing consults the system's zone files or an environment variable.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from importlib import import_module, resources
from itertools import pairwise

from tidemill.domain.cron.errors import CronError
from tidemill.domain.cron.rule import DAY, EPOCH_ORDINAL, Change, Rule, days_before_year, read_rule

FIRST_INSTANT = -62_135_596_800  # 0001-01-01T00:00:00Z
LAST_INSTANT = 253_402_300_799  # 9999-12-31T23:59:59Z
MAX_NAME_LENGTH = 64
_HEADER = struct.Struct(">4s c 15x 6l")


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of time with one offset: `start` <= instant < `end`, epoch seconds.

    `before` and `following` are the offsets on either side; they equal `offset` where time, as far as we count it, ends.
    """

    start: int
    end: int
    before: int
    offset: int
    following: int


class Zone:
    """One zone's changes for the years 1 to 9999. Immutable for its users; remembers what it has worked out."""

    __slots__ = ("_ats", "_changes", "_first", "_rule", "_ruled_from", "_years", "name")

    def __init__(self, name: str, data: bytes) -> None:
        """`data` is a TZif file of version 2 or later; raises ValueError on anything else."""
        self.name = name
        times, offsets, footer = _read_tzif(data)
        self._first = offsets[0]
        self._changes = tuple(
            Change(at, before, after)
            for at, (before, after) in zip(times, pairwise(offsets), strict=True)
            if before != after
        )
        self._ats = tuple(change.at for change in self._changes)
        self._rule: Rule | None = read_rule(footer)
        self._ruled_from = times[-1] if times else FIRST_INSTANT
        self._years: dict[int, tuple[tuple[int, ...], tuple[Change, ...]]] = {}

    def segment(self, instant: int) -> Segment:
        """The stretch of constant offset that holds `instant` (epoch seconds)."""
        last, following = self.change_until(instant), self.change_after(instant)
        offset = last.after if last else following.before if following else self._first
        return Segment(
            start=last.at if last else FIRST_INSTANT,
            end=following.at if following else LAST_INSTANT + 1,
            before=last.before if last else offset,
            offset=offset,
            following=following.after if following else offset,
        )

    def change_after(self, instant: int) -> Change | None:
        """The first change strictly later than `instant`, or None."""
        index = bisect_right(self._ats, instant)
        if index < len(self._ats):
            return self._changes[index]
        if self._rule is None:
            return None
        instant = max(instant, self._ruled_from)
        base, ats, changes = self._around(instant)
        found = changes[bisect_right(ats, instant - base)]
        return _shift(found, base) if found.at + base <= LAST_INSTANT else None

    def change_until(self, instant: int) -> Change | None:
        """The last change at or before `instant`, or None."""
        if self._rule is not None and instant > self._ruled_from:
            base, ats, changes = self._around(instant)
            found = changes[bisect_right(ats, instant - base) - 1]
            if found.at + base > self._ruled_from:
                return _shift(found, base)
        index = bisect_right(self._ats, instant)
        return self._changes[index - 1] if index else None

    def changes_from(self, instant: int) -> bool:
        """True when the data knows of any change after `instant`."""
        return self.change_after(instant) is not None

    def _around(self, instant: int) -> tuple[int, tuple[int, ...], tuple[Change, ...]]:
        """The rule's changes of the year of `instant` and its neighbours, in seconds after that year's start.

        The calendar repeats every 400 years to the weekday, so at most 400 entries are remembered per zone.
        """
        bounded = min(max(instant, FIRST_INSTANT), LAST_INSTANT)
        year = date.fromordinal(bounded // DAY + EPOCH_ORDINAL).year
        base = days_before_year(year) * DAY
        known = self._years.get(year % 400)
        if known is None:
            known = self._years[year % 400] = self._three_years(year, base)
        return base, *known

    def _three_years(self, year: int, base: int) -> tuple[tuple[int, ...], tuple[Change, ...]]:
        assert self._rule is not None
        listed = [change for near in (year - 1, year, year + 1) for change in self._rule.changes(near)]
        kept = [
            _shift(change, -base)
            for change, later in zip(listed, [*listed[1:], None], strict=True)
            if change.before != change.after and (later is None or later.at != change.at)
        ]
        return tuple(change.at for change in kept), tuple(kept)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Every zone name of the pinned data, links included, spelled as IANA spells it."""
    listing = resources.files("tzdata").joinpath("zones").read_text(encoding="ascii")
    return frozenset(listing.split())


@lru_cache(maxsize=1024)
def load_zone(name: str) -> Zone:
    """The zone called `name`. Raises CronError (field `timezone`) when the pinned data has no such zone."""
    if not isinstance(name, str) or name not in zone_names():
        raise _unknown_zone(name)
    path = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    return Zone(name, path.read_bytes())


def zone_data_release() -> str:
    """The IANA release of the pinned data, such as `2026c`; what /readyz and /v1/version show."""
    return str(import_module("tzdata").IANA_VERSION)


def _unknown_zone(name: object) -> CronError:
    hint = "use an IANA name such as Europe/Berlin or UTC"
    if isinstance(name, str) and len(name) <= MAX_NAME_LENGTH:
        wanted = name.strip().replace(" ", "_").casefold()
        near = [known for known in zone_names() if wanted in (known.casefold(), known.rpartition("/")[2].casefold())]
        if near:
            hint = f"did you mean {min(near, key=lambda known: (len(known), known))}?"
        elif wanted[:1] in {"+", "-"} or wanted.startswith(("utc+", "utc-", "gmt+", "gmt-")):
            hint = "a fixed offset is not a zone; use a name such as Asia/Kolkata, or UTC"
    reason = f"not a time zone of the IANA data {zone_data_release()}"
    return CronError("timezone", name if isinstance(name, str) else None, reason, hint)


def _shift(change: Change, seconds: int) -> Change:
    return Change(change.at + seconds, change.before, change.after)


def _read_tzif(data: bytes) -> tuple[list[int], list[int], str]:
    """Times of change, the offsets before the first and from each on (one more than times), and the footer."""
    magic, version, is_ut, is_std, leaps, times, types, chars = _HEADER.unpack_from(data)
    if magic != b"TZif" or version < b"2":
        raise ValueError("not a TZif file of version 2 or later")
    second = _HEADER.size + times * 5 + types * 6 + chars + leaps * 8 + is_std + is_ut
    _, _, is_ut, is_std, leaps, times, types, chars = _HEADER.unpack_from(data, second)
    at = second + _HEADER.size
    instants = list(struct.unpack_from(f">{times}q", data, at))
    kinds = data[at + times * 8 : at + times * 9]
    table = [struct.unpack_from(">lBB", data, at + times * 9 + 6 * kind)[0] for kind in range(types)]
    footer = data[at + times * 9 + types * 6 + chars + leaps * 12 + is_std + is_ut :]
    return instants, [table[0], *(table[kind] for kind in kinds)], footer.strip(b"\n").decode("ascii")
