"""Settle: attempts end, each by one guarded statement that carries the lease token."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tidemill.domain import transitions
from tidemill.domain.jobs import Ack, AckResult, Lease, Leased, Move
from tidemill.domain.transitions import Attempt, Event, Report, State
from tidemill.ports import Rolls, SettleStore


def settle(store: SettleStore, acks: Sequence[Ack], *, roll: Rolls, now: datetime | None = None) -> list[AckResult]:
    """One result per ack, in order. A lease that is not ours writes nothing and answers `lease_lost`.

    The exact repeat of an applied ack answers `ok` again; a contradicting one is `lease_lost`.
    Of two acks for one lease in the same call the first counts.
    """
    first: dict[Lease, Ack] = {}
    for ack in acks:
        first.setdefault(Lease(ack.job_id, ack.lease_token), ack)
    with store.transaction():
        states = _complete(store, first, now) | _move(store, first, roll, now)
        unknown = [lease for lease in first if lease not in states]
        ended = {(e.job_id, e.lease_token): e for e in store.ended(unknown)} if unknown else {}
    results = []
    for ack in acks:
        lease = Lease(ack.job_id, ack.lease_token)
        if lease in states and first[lease].digest == ack.digest:
            results.append(AckResult(ack.job_id, "ok", states[lease].value, None))
        elif (e := ended.get(lease)) is not None and e.digest == ack.digest:
            results.append(AckResult(ack.job_id, "ok", e.state, None))
        else:
            results.append(AckResult(ack.job_id, "lease_lost", None, "lease_lost"))
    return results


def end_leased(store: SettleStore, leased: Sequence[Leased], event: Event, *, roll: Rolls, now: datetime | None = None) -> dict[str, State]:
    """Ends locked leases all the same way (lease expired, released, force cancelled); job id → new state."""
    moves = [Move(item.lease, _decide(item, Report(event), roll)) for item in leased]
    return store.settle(moves, now=now) if moves else {}


def _complete(store: SettleStore, acks: dict[Lease, Ack], now: datetime | None) -> dict[Lease, State]:
    done = sorted((lease, a.result, a.digest) for lease, a in acks.items() if a.event is Event.COMPLETE)
    if not done:
        return {}
    ours = store.complete(done, now=now)
    return {lease: State.COMPLETED for lease, _, _ in done if lease.job_id in ours}


def _move(store: SettleStore, acks: dict[Lease, Ack], roll: Rolls, now: datetime | None) -> dict[Lease, State]:
    others = sorted(lease for lease, a in acks.items() if a.event is not Event.COMPLETE)
    if not others:
        return {}
    moves = []
    for item in store.leased(others):
        ack = acks[item.lease]
        report = Report(ack.event, ack.retryable, ack.retry_delay_ms, ack.delay_ms)
        moves.append(Move(item.lease, _decide(item, report, roll), ack.failure, ack.exit_code, ack.digest))
    states = store.settle(moves, now=now) if moves else {}
    return {m.lease: states[m.lease.job_id] for m in moves if m.lease.job_id in states}


def _decide(item: Leased, report: Report, roll: Rolls) -> transitions.Transition:
    attempt = Attempt(item.attempt, item.max_attempts, item.cancel_requested, item.crash_count)
    return transitions.decide(report, attempt, item.policy, roll=roll())
