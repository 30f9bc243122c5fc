"""Reap: leases that have run out end their attempt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidemill.domain.transitions import Event, State
from tidemill.engine.settle import end_leased
from tidemill.ports import Rolls, SettleStore


@dataclass(frozen=True, slots=True)
class Reaped:
    """How many leases had run out, and where their jobs went."""

    expired: int
    retried: int
    dead: int
    cancelled: int
    quarantined: int


def reap(store: SettleStore, *, limit: int = 500, roll: Rolls, now: datetime | None = None) -> Reaped:
    """Ends at most `limit` expired leases: cancelled where asked, back after backoff while attempts remain, else dead (`lease_expired`).

    Any number may run at once: each locks what it takes and skips the rest.
    """
    with store.transaction():
        states = list(end_leased(store, store.expired(limit, now=now), Event.LEASE_EXPIRED, roll=roll, now=now).values())
    return Reaped(
        expired=len(states),
        retried=states.count(State.SCHEDULED),
        dead=states.count(State.DEAD_LETTER),
        cancelled=states.count(State.CANCELLED),
        quarantined=states.count(State.QUARANTINED),
    )
