"""What webhooks ask of a database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from tidemill.domain.webhooks import Hook, Told
from tidemill.ports import ClaimStore, EnqueueStore, SettleStore


class Due(NamedTuple):
    """A webhook with something to tell, locked until the transaction ends."""

    project_id: str
    event: str
    now: datetime
    is_failing: bool


class Ending(NamedTuple):
    """How a call went. `ends`: delivered, failed or dropped; None: it is tried again."""

    id: str
    status: int | None
    error: str | None
    ends: str | None


class Sample(NamedTuple):
    """Of a kind of error: the queue's name, and the last job that died of it (None: none is open)."""

    error_group: str
    queue: str | None
    job_id: str | None
    attempts: int | None


class WebhookStore(SettleStore, EnqueueStore, ClaimStore, Protocol):
    """News, calls and how they went."""

    def due_webhook(self, *, now: datetime | None) -> Due | None:
        """The one that has waited longest and that no other pass has."""

    def take_news(self, due: Due, again_secs: int, limit: int) -> list[Told]:
        """What is due of that event, taken: told is what this transaction tells."""

    def samples(self, project_id: str, kinds: Sequence[tuple[str, str, str]]) -> list[Sample]:
        """By (error group, queue id, job type)."""

    def note_call(self, due: Due, call_id: str, things: int, quiet_secs: int) -> None:
        """A call is about to be made; the webhook is left in peace for a while."""

    def hooks(self, call_ids: Sequence[str], *, now: datetime | None) -> tuple[dict[str, Hook], datetime | None]:
        """The webhooks by the calls that go to them, and the clock (None: there is none of them)."""

    def note_ends(self, ends: Sequence[Ending], *, now: datetime | None) -> int:
        """Notes how calls went; how many of them were waiting."""

    def stranded_calls(self, limit: int, *, now: datetime | None) -> list[str]:
        """Calls that wait although their job has ended."""

    def prune_webhooks(self, forgotten_secs: int, kept_secs: int, limit: int, *, now: datetime | None) -> int:
        """How many rows that are over were removed."""
