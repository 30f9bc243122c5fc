"""Time zones as lists of offset changes, read from the pinned `tzdata` package and from nothing else.

The standard library's `ZoneInfo(name)` asks the operating system first, and its files may be years older than the code.
Here the compiled TZif files (RFC 9636) come out of the package's own resources, so every deployable that carries the
same lock file computes the same instants. Nothing consults the system's zone files or an environment variable.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from datetime import date
from functools import lru_cache
from importlib import import_module, resources
from itertools import pairwise
from typing import NamedTuple

from tidemill.domain.cron.errors import CronError
from tidemill.domain.cron.rule import DAY, EPOCH_ORDINAL, Change, Rule, days_before_year, is_leap, read_rule

FIRST_INSTANT = -62_135_596_800  # 0001-01-01T00:00:00Z
LAST_INSTANT = 253_402_300_799  # 9999-12-31T23:59:59Z
MAX_NAME_LENGTH = 64
_HEADER = struct.Struct(">4s c 15x 6l")


class Segment(NamedTuple):
    """A stretch of time with one offset: `start` <= instant < `end`, epoch seconds.

    `before` and `following` are the offsets on either side; they equal `offset` where time, as far as we count it, ends.
    """

    start: int
    end: int
    before: int
    offset: int
    following: int


class Zone:
    """One zone's offsets for the years 1 to 9999. Immutable for its users; remembers what it has worked out."""

    __slots__ = ("_listed", "_rule", "_starts", "_years", "name")

    def __init__(self, name: str, data: bytes) -> None:
        """`data` is a TZif file of version 2 or later; raises ValueError on anything else."""
        self.name = name
        times, offsets, footer = _read_tzif(data)
        changes = [Change(at, before, after) for at, (before, after) in zip(times, pairwise(offsets), strict=True) if before != after]
        self._rule = read_rule(footer)
        if self._rule is not None:
            ruled_from = times[-1] if times else FIRST_INSTANT
            near = self._rule.changes_about(_year_of(ruled_from))
            changes.append(next(change for change in near if change.at > ruled_from))
        self._listed = _segments(changes, offsets[0])
        if self._rule is not None:
            del self._listed[-1]
        self._starts = [segment.start for segment in self._listed]
        self._years: dict[tuple[int, bool, bool, bool], tuple[list[int], list[Segment]]] = {}

    def segment(self, instant: int) -> Segment:
        """The stretch of constant offset that holds `instant` (epoch seconds)."""
        listed = self._listed[max(bisect_right(self._starts, instant) - 1, 0)]
        return listed if instant < listed.end or self._rule is None else self._ruled(self._rule, instant)

    def change_after(self, instant: int) -> Change | None:
        """The first change strictly later than `instant`, or None."""
        segment = self.segment(instant)
        return Change(segment.end, segment.offset, segment.following) if segment.end <= LAST_INSTANT else None

    def _ruled(self, rule: Rule, instant: int) -> Segment:
        """The stretch that holds an instant after all listed changes."""
        year = _year_of(min(instant, LAST_INSTANT))
        new_year = days_before_year(year) * DAY
        # The rule's changes follow from the weekday of New Year and from the lengths of three years: 28 cases at most.
        case = new_year // DAY % 7, is_leap(year - 1), is_leap(year), is_leap(year + 1)
        known = self._years.get(case)
        if known is None:
            changes = [change._replace(at=change.at - new_year) for change in rule.changes_about(year)]
            known = self._years[case] = [change.at for change in changes], _segments(changes, changes[0].before)
        ats, segments = known
        start, end, before, offset, following = segments[bisect_right(ats, instant - new_year)]
        if end + new_year > LAST_INSTANT:
            return Segment(start + new_year, LAST_INSTANT + 1, before, offset, offset)
        return Segment(start + new_year, end + new_year, before, offset, following)


def _year_of(instant: int) -> int:
    return date.fromordinal(instant // DAY + EPOCH_ORDINAL).year


def _segments(changes: list[Change], first_offset: int) -> list[Segment]:
    """The stretches before, between and after `changes`, one more than those."""
    starts = [FIRST_INSTANT, *(change.at for change in changes)]
    ends = [*(change.at for change in changes), LAST_INSTANT + 1]
    offsets = [first_offset, *(change.after for change in changes)]
    before, following = [first_offset, *offsets[:-1]], [*offsets[1:], offsets[-1]]
    return [Segment(*each) for each in zip(starts, ends, before, offsets, following, strict=True)]


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Every zone name of the pinned data, links included, spelled as IANA spells it."""
    listing = resources.files("tzdata").joinpath("zones").read_text(encoding="ascii")
    return frozenset(listing.split())


def load_zone(name: str) -> Zone:
    """The zone called `name`. Raises CronError (field `timezone`) when the pinned data has no such zone."""
    if name not in zone_names():
        raise _unknown_zone(name)
    return _read_zone(name)


@lru_cache(maxsize=1024)
def _read_zone(name: str) -> Zone:
    path = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    return Zone(name, path.read_bytes())


def zone_data_release() -> str:
    """The IANA release of the pinned data, such as `2026c`; what /readyz and /v1/version show."""
    return str(import_module("tzdata").IANA_VERSION)


def _unknown_zone(name: str) -> CronError:
    hint = "use an IANA name such as Europe/Berlin or UTC"
    if len(name) <= MAX_NAME_LENGTH:
        wanted = name.strip().replace(" ", "_").casefold()
        near = [known for known in zone_names() if wanted in (known.casefold(), known.rpartition("/")[2].casefold())]
        if near:
            hint = f"did you mean {min(near, key=lambda known: (len(known), known))}?"
        elif wanted[:1] in {"+", "-"} or wanted.startswith(("utc+", "utc-", "gmt+", "gmt-")):
            hint = "a fixed offset is not a zone; use a name such as Asia/Kolkata, or UTC"
    return CronError("timezone", name, f"is not a time zone of the IANA data {zone_data_release()}", hint)


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
