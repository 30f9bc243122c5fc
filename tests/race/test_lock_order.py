"""Lock order, one meeting at a time: each test stops one side between two locks and lets the other run into it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from harness.mill import Mill, ack_of, failure, until, waiting_on_locks
from tidemill.domain.jobs import ClaimedJob, ClaimRequest, Registration
from tidemill.domain.transitions import Event
from tidemill.engine import worker
from tidemill.engine.exchange import exchange
from tidemill.engine.operate import delete
from tidemill.engine.prune import prune
from tidemill.store.claims import Claims
from tidemill.store.settles import Settles


class Paused:
    """Stops `mill` after its completions, before its other acks, until it is let go."""

    def __init__(self, mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        complete = Settles.complete

        def paused(store: Settles, acks: Any, **how: Any) -> Any:
            done = complete(store, acks, **how)
            if store is mill.store:
                self.reached.set()
                assert self.go.wait(timeout=120)
            return done

        monkeypatch.setattr(Settles, "complete", paused)


def apart(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Runs `call` in a thread; what it returned or raised."""
    out: list[Any] = []

    def run() -> None:
        try:
            out.append(call())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            out.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, out


def mixed(jobs: list[ClaimedJob], completed: str) -> list[Any]:
    return [ack_of(j, Event.COMPLETE) if j.job_id == completed else ack_of(j, Event.FAIL, failure=failure(), retryable=False) for j in jobs]


def test_a_mixed_batch_of_acks_takes_its_keys_in_the_order_of_a_bulk_enqueue(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [{"payload": n, "unique": {}} for n in range(2)]
    mill.enqueue_all(specs)
    jobs = mill.claim(2)
    (_, last) = mill.holder()  # by key: the completion frees the last, the failure the first
    other, paused = mill.another(), Paused(mill, monkeypatch)
    acks, acked = apart(lambda: mill.settle(mixed(jobs, last)))
    assert paused.reached.wait(timeout=120)
    enqueue, enqueued = apart(lambda: other.enqueue_all(specs))
    third = mill.another()
    until(lambda: waiting_on_locks(third.conn))
    paused.go.set()
    acks.join()
    enqueue.join()
    assert [result.status for result in acked[0]] == ["ok", "ok"]
    assert [result.deduplicated for result in enqueued[0]] == [False, False]


def test_a_mixed_batch_of_acks_takes_its_leases_in_the_order_of_a_deregistration(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.register(mill.store, mill.project_id, mill.worker_id, Registration("w", ["default"]))
    mill.enqueue_all([{}] * 2)
    jobs = mill.claim(2)
    last = max(job.job_id for job in jobs)
    other, paused = mill.another(), Paused(mill, monkeypatch)
    acks, acked = apart(lambda: mill.settle(mixed(jobs, last)))
    assert paused.reached.wait(timeout=120)
    leaving, left = apart(lambda: worker.deregister(other.store, mill.project_id, mill.worker_id, roll=mill.roll))
    third = mill.another()
    until(lambda: waiting_on_locks(third.conn))
    paused.go.set()
    acks.join()
    leaving.join()
    assert [result.status for result in acked[0]] == ["ok", "ok"]
    assert left == [0]


def test_an_exchange_that_acks_and_then_begins_jobs_never_waits_in_a_circle_with_a_bulk_enqueue(
    mill: Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its acks free one key and its claim another, in whatever order; an enqueue of both waits with empty hands."""
    specs = [{"payload": n, "unique": {"window": "pending"}} for n in range(8)]
    mill.enqueue_all(specs)
    first, last = mill.holder()[0], mill.holder()[-1]
    for job_id in (last, first):  # the last key's job is leased, not begun; the first key's is next
        mill.conn.execute("update tidemill.job_queue_entries set priority = 5 where job_id = %s", [job_id])
        mill.conn.execute("update tidemill.jobs set priority = 5 where id = %s", [job_id])
        mill.conn.execute(
            "insert into tidemill.queue_levels (queue_id, priority) select queue_id, 5 from tidemill.jobs where id = %s", [job_id]
        )
        if job_id == last:
            job = mill.claim_job(last, start=False)
    other, reached, go = mill.another(), threading.Event(), threading.Event()
    claim = Claims.claim

    def paused(store: Claims, request: ClaimRequest, **how: Any) -> Any:
        reached.set()
        assert go.wait(timeout=120)
        return claim(store, request, **how)

    monkeypatch.setattr(Claims, "claim", paused)
    ask = ClaimRequest(mill.project_id, mill.worker_id, ["default"], 1, None, 30_000)
    beat, beaten = apart(
        lambda: exchange(mill.store, mill.project_id, mill.worker_id, acks=[ack_of(job, Event.COMPLETE)], claim=ask, roll=mill.roll)
    )
    assert reached.wait(timeout=120)
    enqueue, enqueued = apart(lambda: other.enqueue_all(specs))
    third = mill.another()
    until(lambda: waiting_on_locks(third.conn))
    go.set()
    beat.join()
    enqueue.join()
    _, (acked,), (begun,) = beaten[0]
    assert (acked.status, begun.job_id) == ("ok", first)
    made = {result.job_id for result in enqueued[0] if not result.deduplicated}
    assert len(made) == 2
    assert mill.misplaced() == []


@pytest.mark.parametrize("way", ["delete", "prune"])
def test_removing_a_job_takes_its_keys_in_the_order_of_an_enqueue(mill: Mill, way: str) -> None:
    """The enqueue waits for the idempotency key first, the removal comes behind it and must not sit on the unique key."""
    spec = {"unique": {"window": "ttl", "ttl_ms": 1}, "idempotency_key": "k", "retention_ms": 0}
    job_id = mill.new(**spec)
    mill.complete(mill.claim_job(job_id))
    one, two, third = mill.another(), mill.another(), mill.another()
    with third.conn.transaction():
        third.conn.execute("select 1 from tidemill.unique_holds where kind = 'idempotency' for update")
        enqueue, enqueued = apart(lambda: one.enqueue_all([{**spec, "retention_ms": 1}, spec, {"unique": spec["unique"]}], atomic=False))
        until(lambda: waiting_on_locks(mill.conn) == 1)
        removal, removed = apart(lambda: delete(two.store, mill.project_id, job_id) if way == "delete" else prune(two.store)["jobs"])
        until(lambda: waiting_on_locks(mill.conn) == 2)
    enqueue.join()
    removal.join()
    assert removed == [None if way == "delete" else 1]
    conflict, answered, fresh = enqueued[0]
    assert conflict.code == "idempotency_conflict"
    assert answered.job_id == job_id
    assert fresh.code is None
    assert mill.store.state(mill.project_id, job_id) is None
    assert mill.misplaced() == []


def test_a_key_pointed_at_a_job_that_is_being_deleted_does_not_outlive_it(mill: Mill) -> None:
    """The enqueue holds the unique key and lets a new idempotency key answer with its holder, while the holder is being deleted."""
    holder = mill.new(unique={})
    one, two = mill.another(), mill.another()
    with one.conn.transaction():
        answered = one.put(unique={}, idempotency_key="k")
        assert answered.job_id == holder
        removal, removed = apart(lambda: delete(two.store, mill.project_id, holder))
        until(lambda: waiting_on_locks(mill.conn))
    removal.join()
    assert removed == [None]
    assert mill.misplaced() == []
    again = mill.put(unique={}, idempotency_key="k")
    assert (again.deduplicated, again.state) == (False, "queued")


def test_two_enqueues_with_new_priorities_in_opposite_order_do_not_wait_for_each_other(mill: Mill) -> None:
    one, two = mill.another(), mill.another()
    with one.conn.transaction():
        one.new(priority=1)
        thread, out = apart(lambda: two.enqueue_all([{"priority": 2}, {"priority": 1}]))
        thread.join(timeout=120)
        assert not thread.is_alive(), "a new priority in one open transaction keeps others out"
        one.new(priority=2)
    assert [result.code for result in out[0]] == [None, None]
    assert sorted(job.priority for job in mill.claim(10)) == [1, 1, 2, 2]
    assert mill.misplaced() == []
