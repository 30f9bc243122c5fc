"""What explain answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class Obstacle(NamedTuple):
    """One reason why a job does not run (API.md §7); `clears_at` where that is known."""

    reason: str
    since: datetime | None
    detail: str
    clears_at: datetime | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job runs, or not: no reasons and `admissible` means that the next claim takes it.

    `notes`: what holds nothing back, though it may look so.
    """

    state: str
    admissible: bool
    blocked_by: Sequence[Obstacle]
    position: int | None
    estimated_start_at: datetime | None
    notes: Sequence[str] = ()
