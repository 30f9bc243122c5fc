"""Deadlock hunts: verbs that meet on the same jobs and keys from several connections. None may ever wait in a circle.

Every scenario counts the server's own deadlock counter, so one that was retried in silence is found too.
"""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from harness.mill import Mill, ack_of, failure, lease_of, scaled
from tidemill.domain.errors import TidemillError
from tidemill.domain.jobs import ClaimRequest, Edit, Heartbeat
from tidemill.domain.transitions import Event
from tidemill.engine import report, worker
from tidemill.engine.exchange import exchange
from tidemill.engine.operate import cancel, delete, edit, promote, reschedule, retry
from tidemill.engine.prune import prune

Act = Callable[[Mill, random.Random], None]
KEYS = 25


def deadlocks(mill: Mill) -> int:
    mill.conn.execute("select pg_stat_force_next_flush()")
    row = mill.conn.execute("select deadlocks from pg_stat_database where datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


def some_job(mill: Mill, rng: random.Random) -> str | None:
    """Any job; few ids at a time, so that verbs meet."""
    row = mill.conn.execute("select id::text from tidemill.jobs order by id limit 1 offset %s", [rng.randrange(KEYS)]).fetchone()
    return row[0] if row else None


def spec(rng: random.Random) -> dict[str, Any]:
    key = rng.randrange(KEYS)
    job: dict[str, Any] = {"payload": key, "priority": rng.randrange(3), "max_attempts": 2, "retry_policy": {"base_delay_ms": 0}}
    kind = rng.randrange(5)
    if kind < 3:
        job["unique"] = [{}, {"window": "pending"}, {"window": "ttl", "ttl_ms": 50}][kind]
    if rng.random() < 0.3:
        job["idempotency_key"] = f"{key} {rng.randrange(5)}"
        job = {**job, "priority": 0, "max_attempts": 2}
        job.setdefault("unique", {})
        job["unique"] = {}
    return {**job, **({"hold": True} if "idempotency_key" not in job and rng.random() < 0.1 else {})}


def enqueues(mill: Mill, rng: random.Random) -> None:
    mill.enqueue_all([spec(rng) for _ in range(rng.choice([1, 5, 30]))], atomic=False)


def acks(mill: Mill, rng: random.Random) -> list[Any]:
    said = []
    for job in mill.claim(rng.choice([1, 3, 20]), start=rng.random() < 0.8):
        event = rng.choice([Event.COMPLETE, Event.COMPLETE, Event.FAIL, Event.SNOOZE, Event.RELEASE, Event.CRASH, Event.ACK_CANCELLED])
        values: dict[str, Any] = {"failure": failure(), "retryable": rng.random() < 0.5} if event is Event.FAIL else {}
        said.append(ack_of(job, event, **values))
    rng.shuffle(said)
    return said


def works(mill: Mill, rng: random.Random) -> None:
    mill.settle(acks(mill, rng))


def exchanges(mill: Mill, rng: random.Random) -> None:
    said = acks(mill, rng)
    leases = [lease_of(job) for job in mill.claim(3)]
    ask = ClaimRequest(mill.project_id, mill.worker_id, ["default"], 5, None, 30_000)
    _, _, jobs = exchange(mill.store, mill.project_id, mill.worker_id, beat=Heartbeat(leases), acks=said, claim=ask, roll=mill.roll)
    mill.settle([ack_of(job, Event.COMPLETE) for job in jobs])


def abandons(mill: Mill, rng: random.Random) -> None:
    jobs = mill.claim(5)
    if jobs:
        mill.lapse(*[job.job_id for job in jobs])


def reports(mill: Mill, rng: random.Random) -> None:
    jobs = mill.claim(2)
    for job in jobs:
        with suppress(TidemillError):
            report.progress(mill.store, lease_of(job), 1)
            report.children(mill.store, mill.project_id, lease_of(job), [{"job_type": "t", **spec(rng)} for _ in range(3)])
    mill.beat(*jobs)
    mill.settle([ack_of(job, Event.COMPLETE) for job in jobs])


def operates(mill: Mill, rng: random.Random) -> None:
    job_id = some_job(mill, rng)
    if job_id is None:
        return
    where = (mill.store, mill.project_id, job_id)
    verbs: list[Callable[[], Any]] = [
        lambda: cancel(*where, roll=mill.roll, force=rng.random() < 0.5),
        lambda: retry(*where),
        lambda: promote(*where),
        lambda: reschedule(*where, _PAST),
        lambda: edit(*where, Edit(priority=rng.randrange(3), tags=["x"])),
        lambda: delete(*where),
    ]
    with suppress(TidemillError):
        rng.choice(verbs)()


def sweeps(mill: Mill, rng: random.Random) -> None:
    mill.reap(limit=rng.choice([1, 7, 100]))
    prune(mill.store, limit=rng.choice([3, 50]))
    if rng.random() < 0.1:
        with suppress(TidemillError):
            worker.deregister(mill.store, mill.project_id, mill.worker_id, roll=mill.roll)


_PAST = datetime(2001, 1, 1, tzinfo=UTC)
SCENARIOS: dict[str, list[Act]] = {
    "acks in batches against bulk enqueues of the same keys": [works, works, enqueues, enqueues],
    "cancel, claim, settle and reap of the same jobs": [operates, works, abandons, sweeps, enqueues],
    "delete and edit against claims": [operates, operates, works, exchanges, enqueues],
    "retry against delete, prune and enqueue": [operates, sweeps, enqueues, works],
    "reports and children against cancels and reapers": [reports, operates, sweeps, enqueues],
    "everything at once": [enqueues, works, exchanges, abandons, reports, operates, operates, sweeps],
}


def run(mill: Mill, acts: list[Act], *, seed: int, steps: int) -> list[str]:
    """Each act on a connection of its own, all at once; what went wrong."""
    wrong: list[str] = []
    gate = threading.Barrier(len(acts))

    def loop(pair: tuple[Act, Mill, int]) -> None:
        act, one, number = pair
        rng = random.Random(seed * 1_000 + number)
        gate.wait(timeout=120)
        for _ in range(steps):
            try:
                act(one, rng)
            except psycopg.Error as error:
                wrong.append(f"{act.__name__}: {error.sqlstate} {error}")

    with ThreadPoolExecutor(len(acts)) as pool:
        list(pool.map(loop, [(act, mill.another(), number) for number, act in enumerate(acts)]))
    return wrong


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_verbs_that_meet_never_wait_in_a_circle_and_never_lose_a_job(mill: Mill, scenario: str) -> None:
    mill.conn.execute("update tidemill.queues set retention_completed_ms = 20, retention_cancelled_ms = 20, retention_dead_letter_ms = 200")
    before = deadlocks(mill)
    wrong = run(mill, SCENARIOS[scenario], seed=len(scenario), steps=scaled(60))
    assert wrong == []
    assert deadlocks(mill) == before
    assert mill.misplaced() == []
    double = mill.conn.execute(
        "select job_id from tidemill.job_executions where status = 'completed' group by job_id having count(*) > 1"
    ).fetchall()
    assert double == []
