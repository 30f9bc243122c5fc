"""Limits: rate classes and standing limits come, change and go; what runs and what waits follows at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Protocol, TypeVar

from tidemill.domain.admission import RateClass, StandingLimit
from tidemill.domain.errors import Fault, Invalid, NotFound, Unavailable
from tidemill.ports import Transactions

T = TypeVar("T")

TRIES: Final = 10
RELANE: Final = 500
RELANE_LOOKS: Final = (20_000, 2_000)
"""How many due jobs without gates a step looks at in each queue and priority, some 4 µs each: in the call that sets a limit, and in a
pass of the scheduler, which does that again and again. In front of a limited one may stand what no worker takes."""
RELANE_SECS: Final = 4.0
"""For how long the call that sets a limit moves jobs, 500 in some 25 ms of the server's: claims crawl past what is not moved yet."""


class LimitStore(Transactions, Protocol):
    """Stores limits and what they count."""

    def hold_claims(self) -> bool:
        """Within a transaction: no claim is under way and none begins until it ends. False if that took too long; nothing is held then."""

    def count_queue(self, project_id: str, queue: str) -> int:
        """Leases of the queue from before it had a gate count; how many they were. Claims are held."""

    def count_type(self, project_id: str, job_type: str) -> int:
        """Leases of the type from before its limit count; how many they were. Claims are held."""

    def put_limit(self, project_id: str, limit: StandingLimit) -> bool | None:
        """Stores it; True if it is new, None if its queue does not exist."""

    def delete_limit(self, project_id: str, name: str) -> tuple[str | None] | None:
        """Removes it; its job type, if it had one. None if there was no such limit."""

    def free_type(self, project_id: str, job_type: str) -> None:
        """Lanes that wait for this type's limit are looked at again."""

    def relane(self, project_id: str | None, limit: int, *, look: int, now: datetime | None) -> tuple[int, int]:
        """One step: jobs of limited types from among the first `look` without gates to their lanes; (how many, the most of one queue)."""

    def put_rate_class(self, project_id: str, rate: RateClass, *, now: datetime | None) -> bool:
        """Stores it; True if it is new."""

    def delete_rate_class(self, project_id: str, name: str) -> bool:
        """False if there was no such class."""

    def look_again(self, project_id: str, rate_class: str, *, now: datetime | None) -> None:
        """Lanes that wait for the class are looked at again."""


def put_limit(store: LimitStore, project_id: str, limit: StandingLimit) -> bool:
    """Sets a standing limit; True if it is new. From its commit on no claim goes over it: what runs counts, what waits has to pass it.

    Invalid if its queue does not exist.
    """

    def work() -> bool:
        is_new = store.put_limit(project_id, limit)
        if is_new is None:
            raise Invalid([Fault(("queue",), f"queue {limit.queue!r} does not exist in this project")])
        if limit.queue is not None:
            store.count_queue(project_id, limit.queue)
        if limit.job_type is not None:
            store.count_type(project_id, limit.job_type)
            store.free_type(project_id, limit.job_type)
        return is_new

    return holding_claims(store, work)


def relane_now(store: LimitStore, project_id: str, *, clock: Callable[[], float] = time.monotonic, now: datetime | None = None) -> None:
    """After a limit on a type was set: its jobs go to its lane, for four seconds; the rest is the scheduler's and the claims'.

    Not within a transaction: each step has its own.
    """
    ends = clock() + RELANE_SECS
    while store.relane(project_id, RELANE, look=RELANE_LOOKS[0], now=now)[1] >= RELANE and clock() < ends:
        pass


def delete_limit(store: LimitStore, project_id: str, name: str) -> None:
    """Removes a standing limit: what waited for it may go. NotFound."""
    with store.transaction():
        gone = store.delete_limit(project_id, name)
        if gone is None:
            raise NotFound("concurrency limit", name)
        if gone[0] is not None:
            store.free_type(project_id, gone[0])


def put_rate_class(store: LimitStore, project_id: str, rate: RateClass, *, now: datetime | None = None) -> bool:
    """Sets a rate class; True if it is new. Jobs that wait for it are looked at again; one that was paused refills from zero."""
    with store.transaction():
        is_new = store.put_rate_class(project_id, rate, now=now)
        store.look_again(project_id, rate.name, now=now)
    return is_new


def delete_rate_class(store: LimitStore, project_id: str, name: str) -> None:
    """Removes a rate class: its jobs are free of it. NotFound."""
    with store.transaction():
        if not store.delete_rate_class(project_id, name):
            raise NotFound("rate class", name)
        store.look_again(project_id, name, now=None)


def relane(store: LimitStore, *, limit: int = RELANE, now: datetime | None = None) -> Mapping[str, int]:
    """The scheduler's part: one bounded step over all projects with limits on job types; `more` 1 while a queue had a full step."""
    moved, most = store.relane(None, limit, look=RELANE_LOOKS[1], now=now)
    return {"jobs": moved, "more": int(most >= limit)}


def holding_claims(store: LimitStore, work: Callable[[], T]) -> T:
    """Runs `work` in a transaction during which no claim runs, so that a new limit and the leases from before it meet exactly.

    A transaction that keeps a lease locked for long (an application's, with depends_on) makes it wait, in short turns between which
    claims go on; after ten of them it raises Unavailable.
    """
    for _ in range(TRIES):
        with store.transaction():
            if store.hold_claims():
                return work()
    raise Unavailable("leases are held by long transactions, so that the limit cannot be set exactly: try again", retry_after_secs=2)
