"""What counting asks of a database."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol

from tidemill.domain.counting import Mark, Progress
from tidemill.domain.figures import Figures
from tidemill.ports import Transactions


class Counted(NamedTuple):
    """What happened in a stretch of time, over all queues."""

    arrived: int = 0
    completed: int = 0
    failed: int = 0
    dead: int = 0


class NumberStore(Transactions, Protocol):
    """Counters and samples. `until` is exclusive, and at most the end of the minute of `since`."""

    def mark_horizon(self, *, now: datetime | None) -> Mark:
        """The clock and the transaction ids so far; a transaction by itself."""

    def counter_progress(self, *, now: datetime | None) -> tuple[Progress, int, datetime] | None:
        """How far the counters are (locked until the transaction ends), the oldest open transaction, the clock. None: another has them."""

    def keep_progress(self, progress: Progress) -> None:
        """Notes how far the counters are."""

    def next_countable(self, since: datetime) -> datetime | None:
        """The first instant from then on at which a job was created or an attempt ended."""

    def fold_counters(self, since: datetime, until: datetime) -> Counted:
        """Adds what happened to the counters."""

    def recount_counters(self, since: datetime, until: datetime) -> int:
        """Adds what is missing of a minute; how many."""

    def sample_queues(self, queues: int, most: int, *, now: datetime | None) -> int:
        """How many queues got their sample of this minute: at most `queues`, each count at most `most`."""

    def prune_numbers(self, limit: int, *, now: datetime | None) -> int:
        """How many counters, samples and latencies were removed, at most `limit` of each kind."""

    def take_figures(self, *, now: datetime | None) -> Figures | None:
        """The figures to tell, noted as told; None if this minute's were told, or another pass is at it."""
