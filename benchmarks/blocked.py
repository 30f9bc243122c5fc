"""A claim of one free job with ten thousand blocked ones in front, beside a claim with nobody in front, in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.measure import Say
from benchmarks.results import Row
from benchmarks.rig import NAME, PROJECT, WORKER, Base, make_base
from tidemill.domain.admission import RateClass, StandingLimit
from tidemill.domain.jobs import ClaimRequest
from tidemill.engine import limits
from tidemill.engine.claim import claim
from tidemill.engine.enqueue import enqueue
from tidemill.engine.quarantine import sweep
from tidemill.engine.reap import reap
from tidemill.local import postgres
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore

BLOCKED: Final = 10_000
CLAIMS: Final = 50
EMPTY: Final = "empty"
WAIT_CLAIMS: Final = 1_000


def _put(store: PostgresStore, count: int, **spec: Any) -> None:
    """Jobs before all others by priority; `{i}` in a text becomes a number below 1,000."""
    job = {"job_type": "blocked", "queue": NAME, "priority": 100, **spec}
    for begin in range(0, count, 1_000):
        numbers = range(min(1_000, count - begin))
        enqueue(store, PROJECT, [{k: v.format(i=i) if isinstance(v, str) else v for k, v in job.items()} for i in numbers])


def _saturated_key(store: PostgresStore, _conn: Any) -> None:
    _put(store, BLOCKED, concurrency={"limit": 1, "key": "K"})
    assert len(_claim(store, NAME)) == 1


def _empty_rate_class(store: PostgresStore, _conn: Any) -> None:
    limits.put_rate_class(store, PROJECT, RateClass("r", 1, 86_400_000, 1))
    _put(store, BLOCKED, rate_class="r", weight=2, partition_key="p{i}")
    while _claim(store, NAME):  # a full bucket lets one in
        pass


def _quarantined(store: PostgresStore, conn: Any) -> None:
    conn.execute("update tidemill.queues set quarantine_after = 1")
    _put(store, BLOCKED)
    assert len(_claim(store, NAME)) == 1
    conn.execute("update tidemill.job_leases set claimed_at = now() - interval '1 day', lease_expires_at = now() - interval '1 second'")
    assert reap(store, limit=10, roll=lambda: 0.5).quarantined == 1
    while sweep(store)["more"]:
        pass


def _paused_queue(store: PostgresStore, conn: Any) -> None:
    made = "insert into tidemill.queues (id, project_id, name, priority, is_paused) values (gen_random_uuid(), %s, 'paused', 9, true)"
    conn.execute(made, [PROJECT])
    _put(store, BLOCKED, queue="paused")


def _full_type(store: PostgresStore, _conn: Any) -> None:
    limits.put_limit(store, PROJECT, StandingLimit("l", 0, job_type="blocked"))
    _put(store, BLOCKED, partition_key="p{i}")


KINDS: Final[dict[str, Callable[[PostgresStore, Any], None]]] = {
    "a saturated key": _saturated_key,
    "an empty rate class, 1,000 partitions": _empty_rate_class,
    "a quarantined fingerprint": _quarantined,
    "a paused queue beside": _paused_queue,
    "a full type, 1,000 partitions": _full_type,
}


def blocked_rows(running: postgres.Server, say: Say) -> list[Row]:
    """Per kind of blocking: the time of a claim, beside that of one in a queue of the same gates with nobody in front."""
    rows = []
    for at, (what, block) in enumerate(KINDS.items()):
        row = _measured(make_base(running, f"bench_blocked_{at}"), what, block)
        rows.append(row)
        say(f"{row.what}: {row.note}")
    return rows


def _measured(base: Base, what: str, block: Callable[[PostgresStore, Any], None]) -> Row:
    row = Row("gates", f"a claim past {BLOCKED:,} jobs: {what}", "ms")
    with connect(base.dsn) as conn:
        store = PostgresStore(conn)
        conn.execute("insert into tidemill.queues (id, project_id, name) values (gen_random_uuid(), %s, %s)", [PROJECT, EMPTY])
        is_gated = what not in ("a quarantined fingerprint", "a paused queue beside")
        if is_gated:
            conn.execute("update tidemill.queues set max_concurrency = 100000 where name = %s", [EMPTY])
        block(store, conn)
        free = [{"job_type": "free", "priority": -5}] * (CLAIMS + 10)
        enqueue(store, PROJECT, [{**job, "queue": queue} for queue in (NAME, EMPTY) for job in free])
        conn.execute("analyze")
        first, longest = 1, 0.0
        while not (took := _took_ms(store, NAME, "paused"))[1]:
            first, longest = first + 1, max(longest, took[0])
            assert first < WAIT_CLAIMS, "the claims do not get past the blocked jobs"
        for turn in range(CLAIMS):
            for queue in ((NAME, EMPTY), (EMPTY, NAME))[turn % 2]:
                ms, found = _took_ms(store, queue, "paused") if queue == NAME else _took_ms(store, queue)
                assert found == 1
                (row.ours if queue == NAME else row.bare).append(ms)
    added = statistics.median(row.ours) - statistics.median(row.bare)
    row.note = f"{added:+.2f} ms; found with claim {first}" + (f", the longest before it {longest:.0f} ms" if first > 1 else "")
    return row


def _took_ms(store: PostgresStore, *queues: str) -> tuple[float, int]:
    began = time.perf_counter()
    found = len(_claim(store, *queues))
    return (time.perf_counter() - began) * 1_000, found


def _claim(store: PostgresStore, *queues: str) -> list[Any]:
    return claim(store, ClaimRequest(PROJECT, WORKER, queues, 1, None, 600_000, True))
