"""What the verbs of batches and the sweep over dependencies ask of the world; `store/families.py` fulfils it on Postgres."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from tidemill.domain.jobs import Batch, BatchCount, JobSpec
from tidemill.ports import EnqueueStore, FamilyStore, OperateStore, SettleStore


class DependantStore(FamilyStore, Protocol):
    """Dependencies."""

    def left_behind(self, *, limit: int) -> list[tuple[str, bool]]:
        """(parent, failed) of ended parents among the next `limit` open edges; the next call goes on behind them."""

    def relatives(self, project_id: str, job_id: str, limit: int) -> list[tuple[str, str, str | None, str | None]]:
        """(parent or child, id, status, job type; the last two None if it is gone), at most `limit` of each."""


class BatchStore(SettleStore, OperateStore, EnqueueStore, Protocol):
    """What a batch's life needs."""

    def create_batch(self, project_id: str, batch_id: str, name: str, callbacks_json: str, *, now: datetime | None) -> None:
        """Adds an open batch."""

    def callback_faults(self, project_id: str, callbacks: Mapping[str, JobSpec]) -> list[tuple[str, str, str]]:
        """(callback, field, message) of those that could not be enqueued today."""

    def batch(self, project_id: str, batch_id: str) -> Batch | None:
        """The batch; None if the project has no such one."""

    def batches(self, project_id: str, *, before: str | None, limit: int) -> list[Batch]:
        """Batches, newest first, behind an id."""

    def seal_batch(self, project_id: str, batch_id: str, *, now: datetime | None) -> BatchCount | None:
        """Seals an open batch; its counters, locked."""

    def cancel_batch(self, project_id: str, batch_id: str, *, now: datetime | None) -> tuple[str, str | None] | None:
        """Cancels a batch that has not ended; its status after that, and the member after which its walk goes on (None: it is over)."""

    def unfinished_members(self, batch_id: str, *, after: str, walk: int, limit: int) -> tuple[list[str], str | None]:
        """Of the next `walk` members at most `limit` in motion that nobody has asked to stop, and where to go on (None: the end)."""

    def walked(self, batch_id: str, *, after: str | None) -> None:
        """Notes how far the walk over a cancelled batch's members is."""

    def cancelling_batches(self, limit: int) -> list[tuple[str, str, str]]:
        """(project id, batch id, member to go on after) of cancelled batches whose members are still being walked."""
