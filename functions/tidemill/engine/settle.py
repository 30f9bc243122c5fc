"""Settle: attempts end, each by one guarded statement that carries the lease token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import cast

from tidemill.domain import transitions
from tidemill.domain.jobs import Ack, AckResult, Lease, Leased, Move
from tidemill.domain.losses import Counted, Loss
from tidemill.domain.transitions import FINAL, Attempt, Event, Report, State
from tidemill.engine.family import BATCH, CHILDREN, End, after_end
from tidemill.engine.losses import count_losses, isolate
from tidemill.ports import Rolls, SettleStore


def settle(store: SettleStore, acks: Sequence[Ack], *, roll: Rolls, now: datetime | None = None) -> list[AckResult]:
    """One result per ack, in order. A lease that is not ours writes nothing and answers `lease_lost`.

    The exact repeat of an applied ack answers `ok` again; a contradicting one is `lease_lost`.
    Of two acks for one lease in the same call the first counts.
    """
    first: dict[tuple[str, str], Ack] = {}  # plain tuples: they equal leases and cost a third
    for ack in acks:
        first.setdefault((ack.job_id, ack.lease_token), ack)
    with store.transaction():
        # In a mixed call all leases (and their keys) are locked first, in one order, so that two calls never wait for each other.
        others = any(ack.event is not Event.COMPLETE for ack in first.values())
        leased = store.leased([Lease(*key) for key in sorted(first)]) if others else []
        completed = _complete(store, first, now)
        moved = _move(store, first, leased, roll, now) if others else {}
        _tell(store, [End(key[0], State.COMPLETED, traits) for key, traits in completed.items() if traits & (BATCH | CHILDREN)], now)
        _tell(store, moved.values(), now)
        unknown = [Lease(*key) for key in first if key not in completed and key not in moved]
        ended = {(e.job_id, e.lease_token): e for e in store.ended(unknown)} if unknown else {}
    results, completed_state = [], State.COMPLETED.value
    for ack in acks:
        key = (ack.job_id, ack.lease_token)
        same = first[key] is ack or first[key].digest == ack.digest
        if same and key in completed:
            results.append(AckResult(ack.job_id, "ok", completed_state, None))
        elif same and key in moved:
            results.append(AckResult(ack.job_id, "ok", moved[key].state.value, None))
        elif (e := ended.get(key)) is not None and e.digest == ack.digest:
            results.append(AckResult(ack.job_id, "ok", e.state, None))
        else:
            results.append(AckResult(ack.job_id, "lease_lost", None, "lease_lost"))
    return results


def end_leased(store: SettleStore, leased: Sequence[Leased], event: Event, *, roll: Rolls, now: datetime | None = None) -> dict[str, State]:
    """Ends locked leases all the same way (lease expired, released, force cancelled); job id → new state. Within a transaction."""
    lost = [Loss(item.lease.job_id, event.value) for item in leased if event is Event.LEASE_EXPIRED and not item.cancel_requested]
    counted = count_losses(store, lost, now=now)
    moves = [_moved(item, Report(event), counted, roll) for item in leased]
    ends = [End(job_id, *how) for job_id, how in store.settle(moves, now=now).items()] if moves else []
    isolate(store, counted.values(), now=now)
    _tell(store, ends, now)
    return {end.job_id: end.state for end in ends}


def _complete(store: SettleStore, acks: Mapping[tuple[str, str], Ack], now: datetime | None) -> Mapping[Lease, int]:
    """The traits of those that were ours, by lease."""
    complete = Event.COMPLETE
    done = [(key, a.result, a.digest) for key, a in acks.items() if a.event is complete]
    if not done:
        return {}
    done.sort(key=itemgetter(0))
    return store.complete(cast("list[tuple[Lease, str | None, int]]", done), now=now)


def _move(
    store: SettleStore, acks: Mapping[tuple[str, str], Ack], leased: Sequence[Leased], roll: Rolls, now: datetime | None
) -> dict[Lease, End]:
    ours = [(item, acks[item.lease]) for item in leased if acks[item.lease].event is not Event.COMPLETE]
    crashed = [Loss(a.job_id, a.event.value, a.exit_code) for item, a in ours if a.event is Event.CRASH and not item.cancel_requested]
    counted = count_losses(store, crashed, now=now)
    moves = [_moved(i, Report(a.event, a.retryable, a.retry_delay_ms, a.delay_ms, a.throttle_ms), counted, roll, a) for i, a in ours]
    states = store.settle(moves, now=now) if moves else {}
    isolate(store, counted.values(), now=now)
    throttled = [(item.lease.job_id, ms) for item in leased if item.has_rate_class and (ms := acks[item.lease].throttle_ms) is not None]
    if throttled:
        store.close_rate_classes(throttled, now=now)
    return {m.lease: End(m.lease.job_id, *states[m.lease.job_id]) for m in moves if m.lease.job_id in states}


def _tell(store: SettleStore, ends: Iterable[End], now: datetime | None) -> None:
    gone = [e for e in ends if e.traits & (BATCH | CHILDREN) and (e.state in FINAL or e.state is State.QUARANTINED)]
    if gone:
        after_end(store, gone, now=now)


def _moved(item: Leased, report: Report, counted: Mapping[str, Counted], roll: Rolls, ack: Ack | None = None) -> Move:
    loss = counted.get(item.lease.job_id)
    is_quarantined = loss is not None and (loss.is_quarantined or loss.is_over)
    attempt = Attempt(item.attempt, item.max_attempts, item.cancel_requested, item.crash_count, is_quarantined, item.has_rate_class)
    step = transitions.decide(report, attempt, item.policy, roll=roll())
    fingerprint = loss.fingerprint if loss else None
    if ack is None:
        return Move(item.lease, step, fingerprint=fingerprint)
    return Move(item.lease, step, ack.failure, ack.exit_code, ack.digest, fingerprint)
