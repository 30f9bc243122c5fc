"""The one table of states and moves (API.md §2), and `decide`, which picks the move that ends an attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tidemill.domain import backoff
from tidemill.domain.errors import InvalidTransition


class State(StrEnum):
    """Where a job is."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    CLAIMED = "claimed"
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DEAD_LETTER = "dead_letter"
    QUARANTINED = "quarantined"


class Event(StrEnum):
    """What can happen to a job."""

    PARENTS_SETTLED = "parents_settled"
    PROMOTE = "promote"
    RESCHEDULE = "reschedule"
    DUE = "due"
    CLAIM = "claim"
    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    CRASH = "crash"
    SNOOZE = "snooze"
    RELEASE = "release"
    LEASE_EXPIRED = "lease_expired"
    ACK_CANCELLED = "cancelled"
    CANCEL = "cancel"
    FORCE_CANCEL = "force_cancel"
    RETRY = "retry"
    QUARANTINE = "quarantine"
    RELEASE_QUARANTINED = "release_quarantined"
    DISCARD = "discard"
    UNDO = "undo"


S, E = State, Event
LEASED: Final = frozenset({S.CLAIMED, S.RUNNING})
FINAL: Final = frozenset({S.COMPLETED, S.CANCELLED, S.DEAD_LETTER})
WAITING: Final = frozenset({S.PENDING, S.SCHEDULED, S.QUEUED})

_AFTER_FAILURE = frozenset({S.SCHEDULED, S.DEAD_LETTER, S.CANCELLED})

TABLE: Final[Mapping[tuple[State, Event], frozenset[State]]] = MappingProxyType(
    {
        (S.PENDING, E.PARENTS_SETTLED): frozenset({S.QUEUED, S.SCHEDULED, S.CANCELLED, S.PENDING}),
        (S.PENDING, E.PROMOTE): frozenset({S.QUEUED, S.SCHEDULED}),
        (S.SCHEDULED, E.PROMOTE): frozenset({S.QUEUED}),
        (S.PENDING, E.RESCHEDULE): frozenset({S.PENDING}),
        (S.SCHEDULED, E.RESCHEDULE): frozenset({S.SCHEDULED, S.QUEUED}),
        (S.QUEUED, E.RESCHEDULE): frozenset({S.SCHEDULED, S.QUEUED}),
        (S.SCHEDULED, E.DUE): frozenset({S.QUEUED}),
        (S.QUEUED, E.CLAIM): frozenset({S.CLAIMED, S.RUNNING}),
        (S.CLAIMED, E.START): frozenset({S.RUNNING}),
        **{(s, E.COMPLETE): frozenset({S.COMPLETED}) for s in LEASED},
        **{(s, E.FAIL): _AFTER_FAILURE for s in LEASED},
        **{(s, E.CRASH): _AFTER_FAILURE | {S.QUARANTINED} for s in LEASED},
        **{(s, E.LEASE_EXPIRED): _AFTER_FAILURE | {S.QUARANTINED} for s in LEASED},
        **{(s, E.SNOOZE): frozenset({S.SCHEDULED, S.CANCELLED}) for s in LEASED},
        **{(s, E.RELEASE): frozenset({S.QUEUED, S.CANCELLED}) for s in LEASED},
        **{(s, E.ACK_CANCELLED): frozenset({S.CANCELLED}) for s in LEASED},
        **{(s, E.CANCEL): frozenset({s}) for s in LEASED},
        **{(s, E.FORCE_CANCEL): frozenset({S.CANCELLED}) for s in LEASED | WAITING},
        **{(s, E.CANCEL): frozenset({S.CANCELLED}) for s in WAITING},
        **{(s, E.QUARANTINE): frozenset({S.QUARANTINED}) for s in WAITING},
        (S.DEAD_LETTER, E.RETRY): frozenset({S.QUEUED}),
        (S.QUARANTINED, E.RELEASE_QUARANTINED): frozenset({S.QUEUED, S.SCHEDULED, S.PENDING, S.CANCELLED}),
        (S.QUARANTINED, E.DISCARD): frozenset({S.CANCELLED}),
        **{(S.QUARANTINED, e): frozenset({S.CANCELLED}) for e in (E.CANCEL, E.FORCE_CANCEL)},
        # only the undo of the bulk operation that cancelled it (docs/adr)
        (S.CANCELLED, E.UNDO): frozenset({S.PENDING, S.SCHEDULED, S.QUEUED, S.QUARANTINED}),
    }
)

_OPERATOR: Final = (E.CANCEL, E.RETRY, E.PROMOTE, E.RESCHEDULE, E.RELEASE_QUARANTINED, E.DISCARD)
_ACTION_NAMES: Final = {E.RELEASE_QUARANTINED: "release"}


def targets(state: State, event: Event) -> frozenset[State]:
    """The states that `event` may lead to from `state`; empty if it may not happen there."""
    return TABLE.get((state, event), frozenset())


def require(state: State, event: Event) -> frozenset[State]:
    """Like `targets`, but a move that is not in the table raises InvalidTransition naming both ends."""
    found = targets(state, event)
    if not found:
        goals = {t for (_, e), ts in TABLE.items() if e is event for t in ts}
        raise InvalidTransition(state.value, event.value, to=" or ".join(sorted(g.value for g in goals)))
    return found


def editable(state: State) -> bool:
    """True where PATCH may change a job: not while leased, not once it has ended for good."""
    return state in WAITING or state in (S.DEAD_LETTER, S.QUARANTINED)


def deletable(state: State) -> bool:
    """True where DELETE may remove a job: not while leased."""
    return state not in LEASED


def actions(state: State) -> list[str]:
    """What an operator may do with a job in `state`, in the API's words; clients offer these and nothing else."""
    allowed = [_ACTION_NAMES.get(e, e.value) for e in _OPERATOR if targets(state, e)]
    if editable(state):
        allowed.append("edit")
    if deletable(state):
        allowed.append("delete")
    return [*allowed, "rerun"]


class ExecutionStatus(StrEnum):
    """How an attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    SNOOZED = "snoozed"
    RELEASED = "released"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    LEASE_EXPIRED = "lease_expired"


_STATUS: Final = {
    E.COMPLETE: ExecutionStatus.COMPLETED,
    E.FAIL: ExecutionStatus.FAILED,
    E.CRASH: ExecutionStatus.CRASHED,
    E.SNOOZE: ExecutionStatus.SNOOZED,
    E.RELEASE: ExecutionStatus.RELEASED,
    E.ACK_CANCELLED: ExecutionStatus.CANCELLED,
    E.FORCE_CANCEL: ExecutionStatus.CANCELLED,
    E.LEASE_EXPIRED: ExecutionStatus.LEASE_EXPIRED,
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt that ends: its 1-based number, the bound, whether a cancel was asked, the losses before it, and whether its fingerprint
    is quarantined (with this loss, or before).
    """

    number: int
    max_attempts: int
    cancel_requested: bool = False
    crash_count: int = 0
    is_quarantined: bool = False
    has_rate_class: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """How the attempt ended, as the worker or the reaper says. Delays in ms; `throttle_ms`: what the job calls has asked to wait."""

    event: Event
    retryable: bool = True
    retry_delay_ms: int | None = None
    delay_ms: int = 0
    throttle_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """The move to make: target, wait until due (scheduled and queued only), attempts that count, and the history's word."""

    to: State
    status: ExecutionStatus
    attempt_count: int
    crash_count: int
    delay_ms: int = 0
    reason: str | None = None


def decide(report: Report, attempt: Attempt, policy: backoff.RetryPolicy, *, roll: float) -> Transition:
    """The transition that `report` makes of a leased job. `roll` in [0, 1) draws the backoff's jitter.

    A cancel that was asked wins over every outcome that would run the job again; a completion wins over the cancel.
    Snooze and release give the attempt back, and so does a throttled failure of a job with a rate class: it is the class that waits.
    Without one a throttled failure is like any other, its retry later. Crashes and lost leases are counted apart, for the quarantine.
    """
    event, status = report.event, _STATUS[report.event]
    lost = event in (E.CRASH, E.LEASE_EXPIRED)
    crashes = attempt.crash_count + lost
    throttled = event is E.FAIL and report.throttle_ms is not None and attempt.has_rate_class
    given_back = event in (E.SNOOZE, E.RELEASE) or throttled
    count = attempt.number - given_back

    def move(to: State, *, delay_ms: int = 0, reason: str | None = None) -> Transition:
        return Transition(to, status, count, crashes, delay_ms, reason)

    if event is E.COMPLETE:
        return move(S.COMPLETED)
    if event in (E.ACK_CANCELLED, E.FORCE_CANCEL) or attempt.cancel_requested:
        return move(S.CANCELLED, reason="cancel_requested")
    if throttled:
        return replace(move(S.SCHEDULED, delay_ms=report.throttle_ms or 0), status=ExecutionStatus.SNOOZED)
    if event is E.SNOOZE:
        return move(S.SCHEDULED, delay_ms=report.delay_ms)
    if event is E.RELEASE:
        return move(S.QUEUED)
    if lost and attempt.is_quarantined:
        return move(S.QUARANTINED, reason=event.value)
    if not report.retryable:
        return move(S.DEAD_LETTER, reason="not_retryable")
    if attempt.number >= attempt.max_attempts:
        return move(S.DEAD_LETTER, reason=E.LEASE_EXPIRED.value if event is E.LEASE_EXPIRED else "attempts_exhausted")
    wait = report.retry_delay_ms if report.throttle_ms is None else report.throttle_ms
    if wait is None:
        wait = backoff.delay_ms(policy, attempts=attempt.number, roll=roll)
    return move(S.SCHEDULED, delay_ms=wait)
