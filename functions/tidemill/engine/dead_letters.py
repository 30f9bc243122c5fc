"""Dead letters: an operator settles one, the scheduler adds up their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from tidemill.domain import transitions
from tidemill.domain.errors import InvalidTransition, NotFound
from tidemill.domain.transitions import Event, State
from tidemill.engine.operate import retry
from tidemill.ports import OperateStore, Transactions

HOURS_KEPT_MS = 48 * 3_600_000
GROUPS_KEPT_MS = 30 * 86_400_000


class Latest(NamedTuple):
    """The last time a job died."""

    id: str
    resolved: bool
    resolution: str | None


class DeadLetterStore(OperateStore, Protocol):
    """What settling a dead letter needs."""

    def latest_dead_letter(self, project_id: str, job_id: str) -> Latest | None:
        """The last time the job died; None if it never did."""

    def discard(self, project_id: str, job_id: str, *, by: str | None, note: str | None, now: datetime | None) -> list[str]:
        """Resolves what is open of the job; the ids."""

    def note_dead_letter(self, dead_letter_id: str, note: str) -> None:
        """Leaves a word on a dead letter."""


class ErrorGroupStore(Transactions, Protocol):
    """What adding up kinds of errors needs."""

    def fold_errors(self, limit: int, *, now: datetime | None = None) -> int:
        """How many rows of news were added to their kinds, and to what webhooks are to tell."""

    def prune_errors(self, hours_ms: int, groups_ms: int, limit: int, *, now: datetime | None) -> tuple[int, int]:
        """(hours, kinds) removed."""


def resolve(
    store: DeadLetterStore,
    project_id: str,
    job_id: str,
    action: str,
    *,
    by: str | None = None,
    note: str | None = None,
    now: datetime | None = None,
) -> str:
    """The id of the dead letter that was settled.

    `retry` puts the job back at its first attempt, `discard` leaves it dead and out of sight; discarding what is discarded
    changes nothing. NotFound, InvalidTransition if the job is not dead, UniqueConflict as for a retry.
    """
    with store.transaction():
        found = store.state(project_id, job_id, now=now)
        if found is None:
            raise NotFound("job", job_id)
        if action == "retry":
            transitions.require(found[0], Event.RETRY)
        elif found[0] is not State.DEAD_LETTER:
            raise InvalidTransition(found[0].value, action)
        letter = store.latest_dead_letter(project_id, job_id)
        if letter is None:
            raise NotFound("dead letter of job", job_id)
        if action == "retry":
            retry(store, project_id, job_id, by=by, now=now)
            if note is not None:
                store.note_dead_letter(letter.id, note)
        elif not store.discard(project_id, job_id, by=by, note=note, now=now) and note is not None:
            store.note_dead_letter(letter.id, note)
        return letter.id


def fold(store: ErrorGroupStore, *, limit: int, now: datetime | None = None) -> Mapping[str, int]:
    """Adds up to `limit` rows of news to their kinds of errors and forgets what is too old to be shown."""
    folded = store.fold_errors(limit, now=now)
    hours, groups = store.prune_errors(HOURS_KEPT_MS, GROUPS_KEPT_MS, limit, now=now)
    return {"folded": folded, "hours": hours, "groups": groups}
