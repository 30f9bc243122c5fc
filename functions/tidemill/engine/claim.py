"""Claim: due jobs go to a worker under leases."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tidemill.domain.errors import LeaseLost
from tidemill.domain.jobs import ClaimedJob, ClaimRequest, Lease
from tidemill.ports import ClaimStore

TURN_MS: Final = 250
"""A gated queue serves one claim at a time. Who finds another there waits in line for so long; a claim takes a few ms."""


def claim(store: ClaimStore, request: ClaimRequest, *, now: datetime | None = None, wait_ms: int = 0) -> list[ClaimedJob]:
    """At most `request.limit` jobs, each with a fresh token, fence + 1 and attempt + 1, in the order of API.md §3.

    An empty list means that nothing is due and free at this moment in those queues, or that other claims were at them. `wait_ms`: how long
    to wait in line, in all, at gated queues where that is so; it holds the store's connection meanwhile.
    """
    if request.limit < 1 or not request.queues:
        return []
    return store.claim(request, now=now, wait_ms=wait_ms)


def claim_in_turn(store: ClaimStore, request: ClaimRequest, *, now: datetime | None = None) -> list[ClaimedJob]:
    """As claim, but one that found nothing because others were at a queue waits in line for it, at most TURN_MS; at once at its
    only queue.

    Whoever only tried would never have a turn at a queue where others wait: Postgres gives a lock to those in line first.
    """
    if len(request.queues) == 1:
        return claim(store, request, now=now, wait_ms=TURN_MS)
    return claim(store, request, now=now) or (claim(store, request, now=now, wait_ms=TURN_MS) if store.met_others else [])


def start(store: ClaimStore, lease: Lease, *, now: datetime | None = None) -> datetime:
    """When the claimed job began (an earlier start stays). LeaseLost if the lease is not ours."""
    began = store.start(lease, now=now)
    if began is None:
        raise LeaseLost(lease.job_id)
    return began
