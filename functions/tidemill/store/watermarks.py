"""Where a scan of an index starts, so that it does not walk again over rows that an old snapshot keeps (docs/adr/0003).

Kept in the process's memory: they only save work. What they pass over, a scan from the beginning finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from tidemill.domain.jobs import ClaimedJob

LAG: Final = timedelta(milliseconds=200)
LAGGED_EVERY_SECS: Final = 0.1
FULL_SCAN_EVERY_SECS: Final = 5.0
FULL_SCAN_SHARE: Final = 0.02
"""Of the time, at most: under an old snapshot a scan from the beginning walks every row that has ever been there."""
LEVELS_KEPT: Final = 10_000

JobTypes = frozenset[str] | None
Clock = Callable[[], float]


class Turns:
    """When a scan from the beginning is due: at first, then every 5 s, or more rarely where it takes more than 1/50 of that.

    clock: seconds of the wall clock, which goes on while a Lambda is frozen. Where it was set back, a scan is due.
    """

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = clock
        self._due_at = self._began_at = clock()

    def is_due(self) -> bool:
        """True once per turn; `took` belongs after the scan."""
        now = self._clock()
        if self._began_at <= now < self._due_at:
            return False
        self._began_at, self._due_at = now, now + FULL_SCAN_EVERY_SECS
        return True

    def took(self) -> None:
        """The scan that was due has ended."""
        now = self._clock()
        self._due_at = max(self._began_at + FULL_SCAN_EVERY_SECS, now + (now - self._began_at) / FULL_SCAN_SHARE)

    def hasten(self) -> None:
        """The next one is due at once."""
        self._due_at = self._began_at


class Watermarks:
    """Per queue and priority, where the next claim starts to look: the last run_at claimed.

    Rows that were committed late stand behind it. Those of the last 0.2 s are looked for ten times a second and whenever a claim
    found less than it could take, all others by a scan without marks every 5 s (`Turns`).
    Claims of other job types have marks of their own: what one passes over is still ahead of another.
    """

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = clock
        self._marks: dict[JobTypes, dict[tuple[str, int], datetime]] = {}
        self._turns = Turns(clock)
        self._unscanned: set[JobTypes] = set()
        self._is_scan = False
        self._lagged_at = 0.0

    def since(self, job_types: JobTypes) -> tuple[list[str], list[int], list[datetime]]:
        """Queue ids, priorities and instants of one length; empty when a scan without marks is due."""
        if self._turns.is_due():
            self._unscanned.update(self._marks)
        marks = self._marks.get(job_types, {})
        self._is_scan = job_types in self._unscanned or not marks
        if self._is_scan:
            self._unscanned.discard(job_types)
            return [], [], []
        instants, now = list(marks.values()), self._clock()
        if not self._lagged_at <= now < self._lagged_at + LAGGED_EVERY_SECS:
            self._lagged_at = now
            instants = [at - LAG for at in instants]
        return [q for q, _ in marks], [p for _, p in marks], instants

    def claimed(self, job_types: JobTypes, jobs: Sequence[ClaimedJob], *, is_full: bool) -> None:
        """Moves the marks up to what was claimed; after a scan also back, so that a clock that was set back hides nothing for long.

        A scan that finds nothing leaves them where they are: an idle worker would else walk all dead rows at every look.
        is_full: as many as were wanted; otherwise the next look goes back by the lag.
        """
        if self._is_scan:
            self._turns.took()
        if not is_full:
            self._lagged_at = 0.0
        if sum(map(len, self._marks.values())) > LEVELS_KEPT:
            self._marks.clear()
        found: dict[tuple[str, int], datetime] = {}
        for job in jobs:
            key, mark = (job.queue_id, job.priority), job.run_at
            if (known := found.get(key)) is None or mark > known:
                found[key] = mark
        if not found:
            return
        marks = self._marks.setdefault(job_types, {})
        for key, mark in found.items():
            if self._is_scan or (known := marks.get(key)) is None or mark > known:
                marks[key] = mark

    def forget(self) -> None:
        """The next claim is a scan without marks."""
        self._turns.hasten()


class ReapMark:
    """Where the reaper starts to look for leases that have run out: 2 s before the newest it knows that there were no others.

    A lease that expires earlier than that and was not seen then was committed late, or somebody's end of it was rolled back;
    the scan from the beginning finds it.
    """

    LAG: Final = timedelta(seconds=2)

    def __init__(self, clock: Clock = time.time) -> None:
        self._turns = Turns(clock)
        self._mark: datetime | None = None
        self._is_scan = False

    def since(self) -> datetime | None:
        """An instant, or None when a scan from the beginning is due."""
        self._is_scan = self._turns.is_due() or self._mark is None
        return None if self._is_scan else self._mark

    def reaped(self, looked_until: datetime | None) -> None:
        """Notes a look that found all there was up to `looked_until` (the database's clock); None if it may have left some."""
        if self._is_scan:
            self._turns.took()
        if looked_until is not None:
            self._mark = looked_until - self.LAG
