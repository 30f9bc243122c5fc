"""Lost leases and crashes, and what they lead to. Fingerprints are hex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Loss(NamedTuple):
    """A lost lease or crash: `reason` is the event's word."""

    job_id: str
    reason: str
    exit_code: int | None = None


class Counted(NamedTuple):
    """What a job's fingerprint (hex) has come to with its loss: quarantined before, or over its queue's threshold now."""

    job_id: str
    project_id: str
    fingerprint: str
    is_quarantined: bool
    is_over: bool


class OpenQuarantine(NamedTuple):
    """Work on a quarantined fingerprint: `verb` release or discard from `position` on, or None: waiting jobs are still swept."""

    project_id: str
    fingerprint: str
    verb: str | None
    position: str | None
    is_swept: bool


class Stepped(NamedTuple):
    """A step of a release or discard: (job, traits, cancelled) of those that moved, how many were looked at, and the last of them."""

    moved: Sequence[tuple[str, int, bool]]
    walked: int
    last: str | None
