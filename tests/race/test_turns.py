"""Workers wait in line for a gated queue, and only as long as they said (docs/adr/0021)."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.mill import Mill, until, uuid7, waiting_on_locks
from tidemill.domain import webhooks as domain
from tidemill.domain.jobs import ClaimRequest
from tidemill.engine import claim as claims
from tidemill.engine import webhooks
from tidemill.engine.claim import claim, claim_in_turn
from tidemill.engine.prune import prune
from tidemill.store import sweeps

LOCK = "select pg_advisory_xact_lock(tidemill.queue_lock(id)) from tidemill.queues"


def patient(mill: Mill, limit: int, wait_ms: int) -> list[str]:
    request = ClaimRequest(mill.project_id, mill.worker_id, ("default",), limit, None, 30_000)
    return [job.job_id for job in claim(mill.store, request, wait_ms=wait_ms)]


def test_who_waits_gets_the_turn_when_the_one_in_front_commits(mill: Mill) -> None:
    made = {mill.new(partition_key="p") for _ in range(3)}
    one, two = mill.another(), mill.another()
    with ThreadPoolExecutor(2) as threads:
        with mill.conn.transaction():
            mill.conn.execute(LOCK.encode())
            waits = [threads.submit(patient, who, 1, 60_000) for who in (one, two)]
            until(lambda: waiting_on_locks(mill.conn) == 2)
            with mill.another().conn.transaction():
                made.add(mill.another().new(partition_key="q"))
        got = [wait.result() for wait in waits]
    assert all(len(ids) == 1 for ids in got)
    assert len({job_id for ids in got for job_id in ids}) == 2
    assert not one.store.met_others
    assert {*patient(mill, 10, 0), *(job_id for ids in got for job_id in ids)} == made
    assert not mill.misplaced()


def test_who_waits_reads_what_was_committed_meanwhile_and_whole(mill: Mill) -> None:
    """The statement's snapshot is from before the wait, the claim's own from after it."""
    mill.new(partition_key="p")
    other = mill.another()
    with ThreadPoolExecutor(1) as threads:
        with mill.conn.transaction():
            mill.conn.execute(LOCK.encode())
            wait = threads.submit(
                lambda: claim(other.store, ClaimRequest(mill.project_id, other.worker_id, ("default",), 5, None, 30_000), wait_ms=60_000)
            )
            until(lambda: waiting_on_locks(mill.conn) == 1)
            late = mill.another().new(partition_key="q", payload={"n": 1})
        jobs = wait.result()
    assert late in {job.job_id for job in jobs}
    assert all(job.job_type == "t" and job.payload for job in jobs)


def test_who_has_waited_long_enough_leaves_and_can_still_wait_for_other_locks(mill: Mill) -> None:
    mill.new(partition_key="p")
    other = mill.another()
    with mill.conn.transaction():
        mill.conn.execute(LOCK.encode())
        assert patient(other, 1, 20) == []
        assert other.store.met_others
    assert other.conn.execute("show lock_timeout").fetchone() == ("0",)
    assert len(patient(other, 1, 20)) == 1


def test_the_bound_of_the_wait_is_not_the_bound_of_the_rest_of_the_transaction(mill: Mill) -> None:
    mill.new(partition_key="p")
    other, held, done = mill.another(), threading.Event(), threading.Event()

    def hold() -> None:
        with mill.conn.transaction():
            mill.conn.execute(LOCK.encode())
            held.set()
            done.wait(60)

    with ThreadPoolExecutor(1) as threads, other.conn.transaction():
        holder = threads.submit(hold)
        assert held.wait(60)
        for wait_ms, ours in ((20, False), (0, False)):
            row = other.conn.execute("select tidemill.await_turn(id, %s) from tidemill.queues", [wait_ms]).fetchone()
            assert row == (ours,)
            assert other.conn.execute("show lock_timeout").fetchone() == ("0",)
        done.set()
        holder.result()
        assert other.conn.execute("select tidemill.await_turn(id, 60000) from tidemill.queues").fetchone() == (True,)
        assert other.conn.execute("show lock_timeout").fetchone() == ("0",)


def test_who_tried_in_vain_stands_in_line_behind_those_who_wait(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Postgres refuses whoever only tries while somebody is in line: claims over HTTP had no turn as long as workers were busy."""
    monkeypatch.setattr(claims, "TURN_MS", 60_000)
    mill.enqueue_all([{"partition_key": "p"}] * 2)
    one, two = mill.another(), mill.another()
    with ThreadPoolExecutor(2) as threads:
        with mill.conn.transaction():
            mill.conn.execute(LOCK.encode())
            worker = threads.submit(patient, one, 1, 60_000)
            until(lambda: waiting_on_locks(mill.conn) == 1)
            request = ClaimRequest(mill.project_id, two.worker_id, ("default",), 1, None, 30_000)
            caller = threads.submit(claim_in_turn, two.store, request)
            until(lambda: waiting_on_locks(mill.conn) == 2 or caller.done())
        assert len(worker.result()) == len(caller.result()) == 1


def test_a_claim_waits_once_for_all_its_queues_and_never_with_jobs_in_hand(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, priority in (("first", 9), ("second", 5), ("third", 1)):
        mill.queue(name, priority=priority, max_concurrency=9)
    mill.enqueue_all([{"queue": "first"}])
    other, waits = mill.another(), []
    ask = other.store._rows

    def noted(name: str, params: dict[str, Any]) -> list[Any]:
        if name == "transitions/claim_gated":
            waits.append(params["wait_ms"])
        return ask(name, params)

    monkeypatch.setattr(other.store, "_rows", noted)
    request = ClaimRequest(mill.project_id, other.worker_id, ("first", "second", "third"), 5, None, 30_000)
    with mill.conn.transaction():
        mill.conn.execute((LOCK + " where name in ('second', 'third')").encode())
        assert len(claim(other.store, request, wait_ms=60_000)) == 1
        assert waits[1:] == [0, 0]
        waits.clear()
        assert claim(other.store, request, wait_ms=200) == []
        assert len(waits) == 3
        assert waits[1] > 0 == waits[2]


def test_a_claim_of_one_queue_stands_in_line_at_once_instead_of_asking_twice(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "TURN_MS", 60_000)
    mill.queue("second")
    mill.enqueue_all([{"partition_key": "p", "queue": queue} for queue in ("default", "second")])
    other, waits = mill.another(), []
    ask = other.store._rows

    def noted(name: str, params: dict[str, Any]) -> list[Any]:
        waits.extend([params["wait_ms"]] if name == "transitions/claim_gated" else [])
        return ask(name, {**params, "wait_ms": 0} if waits else params)

    monkeypatch.setattr(other.store, "_rows", noted)
    with mill.conn.transaction():
        mill.conn.execute(LOCK.encode())
        assert claim_in_turn(other.store, ClaimRequest(mill.project_id, other.worker_id, ("default",), 5, None, 30_000)) == []
        assert len(waits) == 1
        assert waits[0] > 0
        waits.clear()
        assert claim_in_turn(other.store, ClaimRequest(mill.project_id, other.worker_id, ("default", "second"), 5, None, 30_000)) == []
        assert waits[:2] == [0, 0]
        assert waits[2] > 0


def idle_partitions(mill: Mill) -> int:
    """Serves two partitions and lets two days go by; how many may go."""
    mill.enqueue_all([{"partition_key": name} for name in "ab"])
    for job in mill.claim(2):
        mill.complete(job)
    while mill.claim(1):  # finds the last ones empty
        pass
    mill.conn.execute("update tidemill.queue_partitions set served_at = now() - interval '2 days'")
    return mill.count("queue_partitions")


def test_idle_partitions_go_though_workers_stand_in_line(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pruner that only tried had no turn for as long as workers were busy."""
    monkeypatch.setattr(sweeps, "QUEUE_MS", 60_000)
    monkeypatch.setattr(sweeps, "QUEUES_MS", 60_000)
    assert idle_partitions(mill) == 2
    mill.enqueue_all([{"partition_key": "c"}] * 2)
    one, two, pruner = mill.another(), mill.another(), mill.another()
    with ThreadPoolExecutor(3) as threads:
        with mill.conn.transaction():
            mill.conn.execute(LOCK.encode())
            first = threads.submit(patient, one, 1, 60_000)
            until(lambda: waiting_on_locks(mill.conn) == 1)
            pruned = threads.submit(prune, pruner.store)
            until(lambda: waiting_on_locks(mill.conn) == 2 or pruned.done())
            last = threads.submit(patient, two, 1, 60_000)
            until(lambda: waiting_on_locks(mill.conn) == 3 or pruned.done())
        assert pruned.result()["partitions"] == 2
        assert len(first.result()) == len(last.result()) == 1


def test_pruner_waits_a_bounded_time_for_all_its_queues_and_holds_none_meanwhile(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "QUEUE_MS", 40)
    monkeypatch.setattr(sweeps, "QUEUES_MS", 60)
    names = ("default", "x", "y", "z")
    for name in names[1:]:
        mill.queue(name)
    mill.enqueue_all([{"queue": name, "partition_key": "p"} for name in names])
    for job in mill.claim(9, queues=names):
        mill.complete(job)
    while mill.claim(1, queues=names):
        pass
    mill.conn.execute(
        "update tidemill.queue_partitions p set served_at = now() - case when q.name = 'z' then interval '3 days' else '2 days' end"
        " from tidemill.queues q where q.id = p.queue_id"
    )
    pruner, waits = mill.another(), []
    ask = pruner.store._row

    def noted(name: str, params: dict[str, Any]) -> Any:
        if name == "scheduler/prune_partitions":
            waits.append(params["wait_ms"])
            assert not pruner.conn.info.transaction_status
        return ask(name, params)

    monkeypatch.setattr(pruner.store, "_row", noted)
    with mill.conn.transaction():
        mill.conn.execute((LOCK + " where name <> 'z'").encode())
        assert prune(pruner.store)["partitions"] == 1
    assert max(waits) <= 40
    assert sum(waits[1:]) <= 60  # the first one had nobody in front
    assert waits[-1] == 0
    assert prune(pruner.store)["partitions"] == 3


def test_a_courier_stands_in_line_behind_another_instead_of_going_home(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "TURN_MS", 60_000)
    mill.store.put_webhook(mill.project_id, "https://hooks.example.com/team", domain.EVENTS, None, is_paused=None)
    mill.store.begin_webhook(mill.project_id)
    mill.store.add_webhook_secret(uuid7(), mill.project_id, bytes(32))
    mill.store.ask_webhook_test(mill.project_id, "k")
    while webhooks.tell(mill.store, limit=9)["more"]:
        pass
    other = mill.another()
    with ThreadPoolExecutor(1) as threads:
        with mill.conn.transaction():
            mill.conn.execute(LOCK.encode())
            taking = threads.submit(webhooks.take, other.store, other.worker_id, limit=16)
            until(lambda: waiting_on_locks(mill.conn) == 1 or taking.done())
        assert len(taking.result()) == 1
