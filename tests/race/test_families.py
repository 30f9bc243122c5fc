"""Families under real concurrency: ends and births of relatives at the same moment, callbacks once, no deadlock that a caller sees."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from harness.mill import Mill, ack_of, scaled, until, waiting_on_locks
from tidemill.domain.errors import TidemillError
from tidemill.domain.jobs import ClaimRequest
from tidemill.domain.transitions import Event
from tidemill.engine import batch as batches
from tidemill.engine import operate
from tidemill.engine.claim import claim
from tidemill.engine.enqueue import enqueue
from tidemill.engine.settle import settle
from tidemill.store.database import Database

ROUNDS = scaled(400)
IN_VAIN = """
select count(*) from tidemill.jobs j
where j.phase = 'waiting' and not j.is_held and not exists (
    select 1 from tidemill.job_dependencies d join tidemill.job_states p on p.id = d.depends_on_job_id
    where d.job_id = j.id and d.settled_at is null and p.status not in ('completed', 'cancelled', 'dead_letter', 'quarantined'))
"""
UNSUMMED = """
select b.id::text, b.status::text, b.total_jobs, b.completed_jobs, b.failed_jobs, b.cancelled_jobs, m.*
from tidemill.job_batches b
left join lateral (
    select count(*) as total, count(*) filter (where s.status = 'completed') as completed,
           count(*) filter (where s.status = 'dead_letter') as failed, count(*) filter (where s.status = 'cancelled') as cancelled
    from tidemill.job_states s where s.batch_id = b.id) m on true
where (b.total_jobs, b.completed_jobs, b.failed_jobs, b.cancelled_jobs) <> (m.total, m.completed, m.failed, m.cancelled)
"""
DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"


def scalar(mill: Mill, statement: str) -> Any:
    row = mill.conn.execute(statement.encode()).fetchone()
    assert row is not None
    return row[0]


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


ENDS: dict[str, tuple[Callable[[Mill, Any], Any], set[str]]] = {
    "complete": (lambda m, j: m.complete(j), {"queued"}),
    "fail": (lambda m, j: m.fail(j, retryable=False), {"cancelled"}),
    "force_cancel": (lambda m, j: operate.cancel(m.store, m.project_id, j.job_id, force=True, roll=m.roll), {"cancelled"}),
}


@pytest.mark.parametrize("end", ["complete", "fail", "force_cancel"])
def test_b055_children_enqueued_while_their_parent_ends_never_wait_in_vain(mill: Mill, end: str) -> None:
    rounds = ROUNDS if end == "complete" else ROUNDS // 2
    for _ in range(0, rounds, 500):
        mill.enqueue_all([{}] * min(500, rounds))
    parents = [job for _ in range(0, rounds, 500) for job in mill.claim(500)]
    assert len(parents) == rounds
    ending, states = ENDS[end]
    other, dice, starts = mill.another(), random.Random(55), threading.Barrier(2, timeout=120)
    leads = [dice.uniform(-0.002, 0.002) for _ in parents]
    children: list[str] = []
    born: list[str] = []

    def finish() -> None:
        for parent, lead in zip(parents, leads, strict=True):
            starts.wait()
            spin(max(0.0, lead))
            ending(mill, parent)

    def beget() -> None:
        for parent, lead in zip(parents, leads, strict=True):
            starts.wait()
            spin(max(0.0, -lead))
            made = other.put(depends_on=[parent.job_id])
            children.append(str(made.job_id))
            born.append(str(made.state))

    with ThreadPoolExecutor(2) as pool:
        for done in (pool.submit(finish), pool.submit(beget)):
            done.result(timeout=300)
    assert {mill.state(child) for child in children} <= states
    assert scalar(mill, "select count(*) from tidemill.job_dependencies where settled_at is null") == 0
    assert mill.misplaced() == []
    assert {"pending"} < set(born), "both orders must have happened"


def test_b056_callbacks_fire_once_with_eight_connections_acking_and_one_sealing(mill: Mill) -> None:
    batch_id, members = str(uuid.uuid4()), 600
    callbacks = {name: {"job_type": name} for name in ("on_complete", "on_success", "on_failure")}
    batches.create(mill.store, mill.project_id, batch_id, callbacks=callbacks, jobs=[{"job_type": "m"}] * members)
    workers = [mill.another() for _ in range(8)]
    sealing = threading.Event()
    wrong: list[Any] = []
    done = threading.Event()

    def work(worker: Mill) -> None:
        dice = random.Random(worker.worker_id)
        while jobs := worker.claim(dice.randint(1, 7), job_types=["m"]):
            worker.settle([ack_of(job, Event.COMPLETE) for job in jobs])
            if scalar(worker, "select count(*) from tidemill.job_queue_entries") < 40:
                sealing.set()

    def watch(eye: Mill) -> int:
        looks = 0
        while not done.is_set():
            wrong.extend(eye.conn.execute(UNSUMMED).fetchall())
            looks += 1
        return looks

    def seal(sealer: Mill) -> None:
        assert sealing.wait(60)
        batches.seal(sealer.store, sealer.project_id, batch_id)

    with ThreadPoolExecutor(10) as pool:
        looking = pool.submit(watch, mill.another())
        jobs = [pool.submit(seal, mill.another()), *(pool.submit(work, worker) for worker in workers)]
        try:
            for job in jobs:
                job.result(timeout=120)
        finally:
            done.set()
        assert looking.result(timeout=60) > 3
    assert wrong == []
    assert scalar(mill, "select status::text from tidemill.job_batches") == "completed"
    rows = mill.conn.execute("select job_type::text from tidemill.jobs where job_type <> 'm' order by 1").fetchall()
    assert [row[0] for row in rows] == ["on_complete", "on_success"]


def test_b056_sealing_by_many_at_once_fires_once(mill: Mill) -> None:
    for _ in range(10):
        batch_id = str(uuid.uuid4())
        batches.create(mill.store, mill.project_id, batch_id, callbacks={"on_complete": {"job_type": "done"}})
        sealers, together = [mill.another() for _ in range(4)], threading.Barrier(4, timeout=120)

        def seal(sealer: Mill, batch_id: str = batch_id, together: threading.Barrier = together) -> str:
            together.wait()
            return batches.seal(sealer.store, sealer.project_id, batch_id)

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(seal, sealers)) == ["completed"] * 4
        for sealer in sealers:
            sealer.close()
    assert scalar(mill, "select count(*) from tidemill.jobs") == 10


def test_relatives_born_ended_deleted_and_retried_at_random_add_up_and_no_deadlock_surfaces(mill: Mill) -> None:
    """A random history over eight connections; whatever its order, nobody waits in vain and every batch adds up."""
    batch_ids = [str(uuid.uuid4()) for _ in range(3)]
    for batch_id in batch_ids:
        batches.create(mill.store, mill.project_id, batch_id, callbacks={"on_complete": {"job_type": "done"}})
    seen: list[str] = [str(r.job_id) for r in mill.enqueue_all([{}] * 20)]
    surfaced: list[str] = []
    expected = ("invalid_transition", "not_found", "validation_error")

    def actor(seed: int) -> dict[str, int]:
        dice, database, counts = random.Random(seed), Database(mill.dsn), dict[str, int]()
        project = mill.project_id

        def new(store: Any) -> None:
            recent = seen[-60:]
            jobs = []
            for n in range(dice.randint(1, 6)):
                parents: list[Any] = dice.sample(recent, min(len(recent), dice.randint(0, 4)))
                parents += [{"ref": str(k)} for k in range(n) if dice.random() < 0.3]
                job: dict[str, Any] = {
                    "job_type": "t",
                    "ref": str(n),
                    "depends_on": parents,
                    "on_parent_failure": dice.choice(["cancel", "run"]),
                }
                if dice.random() < 0.5:
                    job["batch_id"] = dice.choice(batch_ids)
                jobs.append(job)
            dice.shuffle(jobs)
            made = enqueue(store, project, jobs, atomic=dice.random() < 0.5)
            seen.extend(str(r.job_id) for r in made if r.job_id)

        def work(store: Any) -> None:
            jobs = claim(store, ClaimRequest(project, str(uuid.uuid4()), ["default"], dice.randint(1, 8), None, 30_000, True))
            dice.shuffle(jobs)
            acks = [ack_of(job, Event.FAIL, retryable=False) if dice.random() < 0.15 else ack_of(job, Event.COMPLETE) for job in jobs]
            settle(store, acks, roll=mill.roll)

        def one(verb: Callable[[Any, str, str], Any]) -> Callable[[Any], Any]:
            return lambda store: verb(store, project, dice.choice(seen[-80:]))

        verbs: list[tuple[str, Callable[[Any], Any]]] = [
            ("new", new),
            ("work", work),
            ("cancel", one(lambda s, p, j: operate.cancel(s, p, j, force=dice.random() < 0.5, roll=mill.roll))),
            ("delete", one(operate.delete)),
            ("retry", one(operate.retry)),
            ("promote", one(operate.promote)),
        ]
        for _ in range(120):
            name, verb = dice.choices(verbs, weights=[6, 8, 1, 1, 2, 1])[0]
            counts[name] = counts.get(name, 0) + 1
            try:
                database.run(verb)
            except TidemillError as error:
                if error.code not in expected:
                    surfaced.append(f"{name}: {error.code}: {error.detail}: {error.__cause__!r}")
        database.close()
        return counts

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(actor, seed) for seed in range(8)]:
            assert done.result(timeout=300)["work"] > 20
    assert surfaced == []
    assert mill.conn.execute(UNSUMMED).fetchall() == []
    assert scalar(mill, IN_VAIN) == 0
    assert mill.misplaced() == []
    # All that is left can be run to its end; an actor whose acks gave way to a deadlock has left its leases to the reaper.
    mill.lapse(*(row[0] for row in mill.conn.execute("select job_id::text from tidemill.job_leases")))
    mill.conn.execute("update tidemill.jobs set max_attempts_override = 1")
    mill.reap(limit=10_000)
    while jobs := mill.claim(100):
        mill.settle([ack_of(job, Event.COMPLETE) for job in jobs])
    assert scalar(mill, "select count(*) from tidemill.jobs where phase = 'waiting'") == 0
    for batch_id in batch_ids:
        batches.seal(mill.store, mill.project_id, batch_id)
    assert mill.conn.execute(UNSUMMED).fetchall() == []
    statuses = {row[0] for row in mill.conn.execute("select status::text from tidemill.job_batches")}
    assert statuses <= {"completed", "completed_with_failures"}
    assert scalar(mill, "select count(*) from tidemill.jobs where job_type = 'done'") == 3
    print("deadlocks:", scalar(mill, DEADLOCKS))


def test_an_ack_of_a_member_and_a_new_member_that_depends_on_it_never_wait_for_each_other(mill: Mill) -> None:
    """The enqueue used to lock the batch before the parent's lease, the ack the lease before the batch: a deadlock each time."""
    batch_id = str(uuid.uuid4())
    batches.create(mill.store, mill.project_id, batch_id)
    batches.add(mill.store, mill.project_id, batch_id, [{"job_type": "m"}])
    job = mill.claim_one()
    adder = mill.another()
    with mill.store.transaction():
        mill.conn.execute("select 1 from tidemill.job_leases where job_id = %s for update", [job.job_id])
        with ThreadPoolExecutor(1) as pool:
            adding = pool.submit(batches.add, adder.store, mill.project_id, batch_id, [{"job_type": "m", "depends_on": [job.job_id]}])
            waiting = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            with psycopg.connect(mill.dsn, autocommit=True) as eye:
                while not eye.execute(waiting).fetchone():
                    assert not adding.done()
            # the batch must still be free for the ack
            mill.conn.execute("select 1 from tidemill.job_batches where id = %s for update nowait", [batch_id])
            mill.conn.execute("commit")
            assert adding.result(timeout=60)[0].state == "pending"
    mill.complete(job)
    assert scalar(mill, "select count(*) from tidemill.jobs where phase = 'waiting'") == 0


def test_a_deletion_that_waits_for_a_change_of_its_job_goes_on(mill: Mill) -> None:
    """It used to fail: "ModifyTable should not be called during EvalPlanQual"."""
    parent = mill.new()
    mill.complete(mill.claim_one())
    deleter = mill.another()
    with psycopg.connect(mill.dsn) as app, ThreadPoolExecutor(1) as pool:
        child = json.dumps([{"job_type": "t", "depends_on": [parent]}])
        app.execute("select * from tidemill.enqueue(%s, %s::jsonb)", [mill.project_id, child])
        deleting = pool.submit(operate.delete, deleter.store, mill.project_id, parent)
        until(lambda: waiting_on_locks(mill.conn) or deleting.done())
        app.commit()
        deleting.result(timeout=60)
    assert mill.store.state(mill.project_id, parent) is None
    assert [row[0] for row in mill.conn.execute("select status::text from tidemill.job_states")] == ["queued"]
