"""Attempts end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg import Connection

from tidemill.domain import backoff, limits
from tidemill.domain.backoff import RetryPolicy, Strategy
from tidemill.domain.jobs import Ended, Lease, Leased, Move
from tidemill.domain.keys import compact_json
from tidemill.domain.transitions import State
from tidemill.store.base import Adapter, array, rounds, texts
from tidemill.store.watermarks import ReapMark


class Settles(Adapter):
    """Implements ports.SettleStore."""

    def __init__(self, conn: Connection[Any]) -> None:
        super().__init__(conn)
        self.reap_mark = ReapMark()

    def complete(self, acks: Sequence[tuple[Lease, str | None, int]], *, now: datetime | None) -> dict[Lease, int]:
        ours: dict[Lease, int] = {}
        for each_once in rounds(acks, lambda ack: ack[0][0]):
            rows = self._rows(
                "transitions/complete",
                {
                    # Array literals made here cost a tenth of the driver's, and this is the hottest call there is.
                    "job_ids": array([lease[0] for lease, _, _ in each_once]),
                    "tokens": array([lease[1] for lease, _, _ in each_once]),
                    "results": texts([result for _, result, _ in each_once]),
                    "digests": array([digest for _, _, digest in each_once]),
                    "now": now,
                },
            )
            ours |= {Lease(row[0], row[1]): row[2] for row in rows}
        return ours

    def leased(self, leases: Sequence[Lease]) -> list[Leased]:
        return [_leased(row) for row in self._rows("leases/leased", _pairs(leases))]

    def expired(self, limit: int, *, now: datetime | None) -> list[Leased]:
        since = self.reap_mark.since() if now is None else None
        rows = self._rows("leases/expired", {"limit": limit, "since": since, "now": now})
        found = [_leased(row[:-1]) for row in rows if row[0] is not None]
        if now is None:
            self.reap_mark.reaped(rows[0][-1] if len(found) < limit else None)
        return found

    def settle(self, moves: Sequence[Move], *, now: datetime | None) -> dict[str, tuple[State, int]]:
        items = [_item(move) for move in sorted(moves, key=lambda m: m.lease)]
        params = {
            "job_ids": [item["job_id"] for item in items],
            "moves": compact_json(items),
            "keep": limits.EXECUTIONS_KEPT - 1,
            "now": now,
        }
        rows = self._rows("transitions/settle", params)
        return {row[0]: (State(row[1]), row[2]) for row in rows}

    def close_rate_classes(self, throttled: Sequence[tuple[str, int]], *, now: datetime | None) -> None:
        params = {"job_ids": [job_id for job_id, _ in throttled], "delays_ms": [ms for _, ms in throttled], "now": now}
        self._row("rates/close", params)

    def ended(self, leases: Sequence[Lease]) -> list[Ended]:
        return [Ended(*row) for row in self._rows("leases/acked", _pairs(leases))]


def _pairs(leases: Sequence[Lease]) -> dict[str, Any]:
    return {"job_ids": [lease.job_id for lease in leases], "tokens": [lease.lease_token for lease in leases]}


def _item(move: Move) -> dict[str, Any]:
    step, failure = move.transition, move.failure
    return {
        "job_id": move.lease.job_id,
        "token": move.lease.lease_token,
        "to": step.to.value,
        "status": step.status.value,
        "attempt_count": step.attempt_count,
        "crash_count": step.crash_count,
        "delay_ms": step.delay_ms,
        "reason": step.reason,
        "error_class": failure.error_class if failure else None,
        "error_message": failure.message if failure else None,
        "error_stack": failure.stack if failure else None,
        "exit_code": move.exit_code,
        "digest": move.digest,
        "fingerprint": move.fingerprint,
    }


def _leased(row: tuple[Any, ...]) -> Leased:
    job_id, token, attempt, override, cancel, crashes, strategy, base, multiplier, cap, most, jitter, inline, has_rate_class = row
    policy = RetryPolicy(Strategy(strategy), base, multiplier, cap, most, jitter) if strategy else backoff.DEFAULT
    policy = backoff.merged(policy, inline if isinstance(inline, dict) else None)
    return Leased(Lease(job_id, token), attempt, override or policy.max_attempts, cancel, crashes, policy, has_rate_class)
