"""Which stretch of time a pass counts next, so that every row is read once and what is committed late is counted too (docs/adr/0013).

A row's time is when it was written, not when it was committed. A *mark* is (time, transaction id): every transaction that had an id at
that time has a smaller one. Once all smaller ones have ended, nothing can appear any more before the mark's time, less SLACK for
statements that took so long to write. Up to there the count is settled. It goes on without that after PATIENCE, and such
minutes are counted again once they are settled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

SLACK: Final = timedelta(seconds=5)
"""How long a statement may take from its start to the first row it writes."""
PATIENCE: Final = timedelta(minutes=2)
LEAST: Final = timedelta(seconds=5)
"""A shorter stretch is left for the next pass."""
MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Mark:
    """Every transaction that had an id at `at` has one below `xid`."""

    at: datetime
    xid: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the counters are: what was visible before `folded_until` is counted, before `settled_until` for good."""

    folded_until: datetime | None = None
    settled_until: datetime | None = None
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch to count, within one minute, and the progress after it. `more`: there is another one behind it."""

    kind: Literal["fold", "recount"]
    since: datetime
    until: datetime
    after: Progress
    more: bool


def settled(progress: Progress, mark: Mark | None, oldest: int) -> tuple[datetime | None, Mark | None]:
    """Up to when nothing can appear any more (None: not known), and the mark to wait for. No open transaction has an id below `oldest`."""
    if mark is not None and oldest > mark.xid:
        return second_of(mark.at - SLACK), None
    if progress.mark is not None and oldest > progress.mark.xid:
        return second_of(progress.mark.at - SLACK), mark
    return None, progress.mark or mark


def edge_of(safe: datetime | None, now: datetime) -> datetime:
    """Up to when to count now."""
    forced = second_of(now - PATIENCE)
    return forced if safe is None else max(safe, forced)


def next_step(progress: Progress, safe: datetime | None, now: datetime) -> Step | None:
    """What to count next; None if nothing is worth it yet. `progress` must have begun."""
    folded, good = progress.folded_until, progress.settled_until
    assert folded is not None
    assert good is not None
    edge = edge_of(safe, now)
    if good < folded and safe is not None and safe > good:
        since = minute_of(good)
        until = min(since + MINUTE, folded)
        after = replace(progress, settled_until=min(until, safe))
        return Step("recount", since, until, after, more=True)
    until = min(edge, minute_of(folded) + MINUTE)
    if edge - folded < LEAST:
        return None
    return Step("fold", folded, until, _folded(progress, until, safe), more=until < edge)


def skipped_to(progress: Progress, first: datetime | None, safe: datetime | None, now: datetime) -> Progress:
    """The progress behind a stretch in which nothing happened: up to the minute of `first`, the next thing that did."""
    edge = edge_of(safe, now)
    until = edge if first is None else min(edge, minute_of(first))
    return progress if progress.folded_until is not None and until <= progress.folded_until else _folded(progress, until, safe)


def _folded(progress: Progress, until: datetime, safe: datetime | None) -> Progress:
    since, good = progress.folded_until, progress.settled_until
    if since is None or good is None:
        return replace(progress, folded_until=until, settled_until=until)
    if good == since and safe is not None:
        good = min(until, max(good, safe))
    return replace(progress, folded_until=until, settled_until=good)


def minute_of(at: datetime) -> datetime:
    """The beginning of its minute."""
    return at.replace(second=0, microsecond=0)


def second_of(at: datetime) -> datetime:
    """The beginning of its second."""
    return at.replace(microsecond=0)


def least_id(at: datetime) -> str:
    """No job created at or after this whole second has a smaller id (UUIDv7: milliseconds first)."""
    ms = round((at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))
    text = f"{max(0, ms):012x}"
    return f"{text[:8]}-{text[8:]}-0000-0000-000000000000"
