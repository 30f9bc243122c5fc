"""What has changed in a project since an earlier look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tidemill.store.base import Adapter

OVERLAP: Final = timedelta(minutes=5)
"""How long before the earlier look a row may have been written whose transaction ended only after it."""

ROWS: Final = 500
"""How many rows of each index a look takes."""

JOBS: Final = 200
"""How many jobs a look tells at most."""

MOST_OPEN: Final = 40
"""A snapshot with more open transactions than this is told by the oldest of them: more is told twice, nothing is missed."""

_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True)
class Mark:
    """Until when somebody knows all: a snapshot of the database (as Postgres writes it), and the time it was taken."""

    at: datetime
    snapshot: str


@dataclass(slots=True)
class Changes:
    """What is new since a mark, and the next mark. `is_sure`: something that has certainly not been told before."""

    mark: Mark
    jobs: list[tuple[str, str]] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    schedules: list[str] = field(default_factory=list)
    workers: list[str] = field(default_factory=list)
    truncated: bool = False
    is_sure: bool = False

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to tell."""
        return not (self.jobs or self.queues or self.schedules or self.workers or self.truncated)


class ChangeReads(Adapter):
    """Reads changes. One statement per look, no lock, nothing written."""

    def changes(self, project_id: str, since: Mark | None) -> Changes:
        """What has changed since the mark; with None only the mark from which on to look."""
        params = {
            "project_id": project_id,
            "snapshot": since.snapshot if since else None,
            "since": since.at if since else None,
            "overlap_ms": OVERLAP // timedelta(milliseconds=1),
            "floor_id": _least_id(since.at - OVERLAP) if since else None,
            "rows": ROWS,
            "most": JOBS,
        }
        return _changes(self._rows("changes/since", params))


def _changes(rows: Sequence[tuple[str, str, str | None, bool]]) -> Changes:
    _, snapshot, at, _ = next(row for row in rows if row[0] == "mark")
    assert at is not None
    found = Changes(Mark(datetime.fromisoformat(at), _short(snapshot)))
    things = {"queue": found.queues, "schedule": found.schedules, "worker": found.workers}
    for kind, name, state, is_sure in rows:
        if kind == "mark":
            continue
        found.is_sure |= is_sure
        if kind == "job":
            assert state is not None
            found.jobs.append((name, state))
        elif kind == "truncated":
            found.truncated = True
        else:
            things[kind].append(name)
    return found


def _short(snapshot: str) -> str:
    """The snapshot, or, where it names very many open transactions, an older one that knows less."""
    oldest, _, rest = snapshot.partition(":")
    return f"{oldest}:{oldest}:" if rest.count(",") >= MOST_OPEN else snapshot


def _least_id(at: datetime) -> str:
    """The least id that a job created then can have: ids begin with the milliseconds."""
    digits = f"{max(0, (at - _EPOCH) // timedelta(milliseconds=1)):012x}" + "0" * 20
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
