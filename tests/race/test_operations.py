"""Bulk operations under many schedulers, kills and jobs that somebody else holds: each member once."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import bulk
from harness.clock import allowed
from harness.dead import dead, phases
from harness.mill import Mill, scaled, until
from tidemill.domain.errors import Unavailable
from tidemill.engine import operations
from tidemill.engine.bulk import Bulk
from tidemill.store.operations import Operations

# How often a retry has entered each job: its lease count, seen by a trigger, which no code of ours can fool.
WATCH = """
create table public.entered (job_id uuid not null, at timestamptz not null default clock_timestamp());
create function public.note_entered() returns trigger language plpgsql as
    $$ begin insert into public.entered (job_id) values (new.job_id); return new; end $$;
create trigger watch after insert on tidemill.job_queue_entries for each row execute function public.note_entered();
"""
SCHEDULER = """
import sys, time
sys.path[:0] = {paths!r}
from tidemill.engine.bulk import Bulk
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore
store = PostgresStore(connect({dsn!r}))
bulk = Bulk(store, clock=time.monotonic)
bulk._size = 50
print("begun", flush=True)
while bulk.step()["more"]:
    bulk._size = 50
print("done", flush=True)
"""


def watched(mill: Mill) -> None:
    mill.conn.execute(WATCH)


def entered(mill: Mill) -> tuple[int, int]:
    """(entries ever made, jobs they were for)."""
    row = mill.conn.execute("select count(*), count(distinct job_id) from public.entered").fetchone()
    assert row is not None
    return row[0], row[1]


def scheduler(mill: Mill) -> subprocess.Popen[str]:
    root = Path(__file__).resolve().parents[2]
    code = SCHEDULER.format(paths=[str(root / "functions")], dsn=mill.dsn)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def affected(mill: Mill) -> int:
    row = mill.conn.execute("select sum(affected) from tidemill.operations").fetchone()
    return int(row[0]) if row and row[0] else 0


def test_a_scheduler_killed_half_way_leaves_a_batch_undone_and_the_next_goes_on(mill: Mill) -> None:
    count = 4_000 * scaled(1)
    watched(mill)
    dead(mill, count)
    found = bulk.begun(mill, "retry", state=["dead_letter"])
    for part in (1, 2, 3):
        process = scheduler(mill)
        try:
            goal = count * part // 5
            until(lambda goal=goal, process=process: affected(mill) >= goal or process.poll() is not None, within_s=300)
            process.send_signal(signal.SIGKILL)
        finally:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    half = bulk.seen(mill, found)
    assert half.status == "applying"
    assert count * 3 // 5 <= half.affected < count
    bulk.run(mill)
    done = bulk.seen(mill, found)
    assert (done.status, done.affected, done.skipped, done.total) == ("completed", count, 0, count)
    assert entered(mill) == (count, count)
    assert phases(mill) == {"queued": count}


def test_many_schedulers_at_once_share_the_operations_and_do_each_job_once(mill: Mill) -> None:
    watched(mill)
    dead(mill, 1_500)
    found = [bulk.begun(mill, "retry", error_class=f"Boom{n}") for n in range(4)]
    others = [mill.another() for _ in range(3)]
    failed: list[BaseException] = []

    def work(other: Mill) -> None:
        try:
            phase = Bulk(other.store, clock=time.monotonic)
            while any(bulk.seen(other, one).status != "completed" for one in found):
                phase._size = 20
                phase.step()
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    threads = [threading.Thread(target=work, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    assert [bulk.seen(mill, one).affected for one in found] == [375] * 4
    assert entered(mill) == (1_500, 1_500)


def test_a_job_that_somebody_holds_is_not_waited_for_and_has_its_turn_later(mill: Mill) -> None:
    dead(mill, 50)
    held = mill.conn.execute("select id from tidemill.jobs order by id offset 20 limit 1").fetchone()
    found = bulk.begun(mill, "retry", state=["dead_letter"])
    with psycopg.connect(mill.dsn) as other:
        other.execute("select from tidemill.jobs where id = %s for update", held)
        began = time.monotonic()
        bulk.run(mill)
        assert time.monotonic() - began < allowed(5)
        half = bulk.seen(mill, found)
        assert (half.status, half.affected, list(half.again)) == ("applying", 49, [str(held[0])])
    bulk.run(mill)
    done = bulk.seen(mill, found)
    assert (done.status, done.affected, list(done.again)) == ("completed", 50, [])


def test_a_key_that_somebody_is_taking_holds_nobody_up(mill: Mill) -> None:
    for n in range(20):
        mill.new(unique={}, payload=n)
    for job in mill.claim(20):
        mill.fail(job, retryable=False)
    found = bulk.begun(mill, "retry", state=["dead_letter"])
    other = mill.another()
    with other.conn.transaction(force_rollback=True):
        other.new(unique={}, payload=7)  # an application's transaction that stays open
        bulk.run(mill)
        half = bulk.seen(mill, found)
        assert (half.status, half.affected, len(half.again)) == ("applying", 19, 1)
    bulk.run(mill)
    assert (bulk.seen(mill, found).status, bulk.seen(mill, found).affected) == ("completed", 20)
    assert mill.misplaced() == []


class Killed(Exception):
    """The scheduler dies here."""


@pytest.fixture
def crowd(mill: Mill) -> Mill:
    watched(mill)
    return mill


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9), st.sampled_from(["run", "kill", "kill late", "wait"])), max_size=12),
    st.booleans(),
)
def test_after_any_interleaving_of_passes_and_kills_each_member_was_moved_once(
    crowd: Mill, steps: list[tuple[int, int, str]], aborts: bool
) -> None:
    """Two schedulers take turns with batches of 1 to 9; some die before their batch is noted, some after, some cannot have their locks."""
    mill = crowd
    mill.conn.execute("delete from tidemill.jobs")
    mill.conn.execute("truncate tidemill.job_queue_entries, tidemill.dead_letter_queue, tidemill.operations, public.entered")
    dead(mill, 30)
    found = bulk.begun(mill, "retry", state=["dead_letter"])
    stores = [mill.store, (mill.others or [mill.another()])[0].store]
    noted = Operations.moved_operation
    with pytest.MonkeyPatch.context() as patch:
        for who, size, how in steps:

            def moved(self: Operations, *args: object, how: str = how, **kwargs: object) -> None:
                if how == "kill":
                    raise Killed
                noted(self, *args, **kwargs)
                if how == "kill late":
                    raise Killed
                if how == "wait":
                    raise Unavailable("held")

            patch.setattr(Operations, "moved_operation", moved)
            phase = Bulk(stores[who], clock=time.monotonic)
            phase._size = size
            with contextlib.suppress(Killed, Unavailable):
                phase.step()
    if aborts and bulk.seen(mill, found).status == "applying":
        stopped = operations.abort(mill.store, mill.project_id, found.id)
        bulk.run(mill)
        assert entered(mill) == (stopped.affected, stopped.affected)
        return
    bulk.run(mill)
    done = bulk.seen(mill, found)
    assert (done.status, done.affected, done.skipped) == ("completed", 30, 0)
    assert entered(mill) == (30, 30)


def test_operations_and_everyday_traffic_leave_every_job_in_one_place(mill: Mill) -> None:
    """Cancel, undo, promote and retry run while workers claim and end jobs: nothing is lost, and the counters add up."""
    roll = random.Random(4)
    for n in range(60):
        mill.new(
            payload=n,
            unique={"by": ["x"]} if n % 7 == 0 else {},
            **({"hold": True} if n % 5 == 0 else {}),
            **({"delay_ms": 60_000} if n % 6 == 0 else {}),
        )
    worker = mill.another()
    failed: list[BaseException] = []
    over = threading.Event()

    def work() -> None:
        try:
            while not over.is_set():
                for job in worker.claim(5):
                    worker.complete(job) if roll.random() < 0.5 else worker.fail(job, retryable=roll.random() < 0.5)
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for action, query in (("cancel", {"queue": "default"}), ("retry", {"queue": "default"}), ("promote", {"queue": "default"})):
            done = bulk.done(mill, action, allow_drift=True, **query)
            assert done.status == "completed"
            assert done.affected + done.skipped == done.total
            if action == "cancel":
                operations.undo(mill.store, mill.project_id, done.id)
                bulk.run(mill)
                assert bulk.seen(mill, done).status == "undone"
    finally:
        over.set()
        thread.join(120)
    assert failed == []
    assert mill.misplaced() == []
