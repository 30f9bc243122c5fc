"""Workers come and go: register, command, deregister."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from tidemill.domain.errors import NotFound
from tidemill.domain.jobs import Registered, Registration
from tidemill.domain.transitions import Event
from tidemill.engine.settle import end_leased
from tidemill.ports import HeartbeatStore, Rolls, SettleStore


class _Store(HeartbeatStore, SettleStore, Protocol):
    """What a worker's life needs."""


def register(
    store: HeartbeatStore, project_id: str, worker_id: str, registration: Registration, *, now: datetime | None = None
) -> Registered:
    """Adds a worker under a new id; a second one of the same name does not touch the first one's leases. NotFound for an unknown queue."""
    known = store.register(project_id, worker_id, registration, now=now)
    for name in registration.queues:
        if name not in known:
            raise NotFound("queue", name)
    return Registered(worker_id, max(200, min(registration.lease_ms // 3, 15_000)), registration.lease_ms)


def command(store: HeartbeatStore, project_id: str, worker_id: str, word: str) -> None:
    """Leaves quiet, resume, restart or terminate for the worker's next heartbeat."""
    if not store.command(project_id, worker_id, word):
        raise NotFound("worker", worker_id)


def deregister(store: _Store, project_id: str, worker_id: str, *, roll: Rolls, now: datetime | None = None) -> int:
    """Removes a worker and releases what it holds without costing an attempt; how many jobs that were."""
    released = 0
    while True:
        with store.transaction():
            held = store.leases_of(project_id, worker_id, 500)
            released += len(end_leased(store, store.leased(held), Event.RELEASE, roll=roll, now=now))
        if len(held) < 500:
            break
    if not store.deregister(project_id, worker_id) and released == 0:
        raise NotFound("worker", worker_id)
    return released
