"""B040: keys that meet inside one bulk call and between two calls that bring them in opposite order."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.mill import Mill, ack_of, scaled
from tidemill.domain.errors import Invalid
from tidemill.domain.jobs import Enqueued
from tidemill.domain.transitions import Event

DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"


def deadlocks(mill: Mill) -> int:
    mill.conn.execute("select pg_stat_force_next_flush()")
    row = mill.conn.execute(DEADLOCKS.encode()).fetchone()
    assert row is not None
    return int(row[0])


def bulk(taken: list[int]) -> list[dict[str, Any]]:
    """1,000 jobs: ten share a key, five collide with what is there, one names a queue that is not, the rest are plain."""
    jobs: list[dict[str, Any]] = [{"payload": i} for i in range(1_000)]
    for at in range(100, 200, 10):
        jobs[at] = {"payload": "shared", "unique": {}}
    for at, key in enumerate(taken):
        jobs[500 + at] = {"payload": key, "unique": {}}
    jobs[777] = {"payload": 777, "queue": "absent"}
    return jobs


def test_b040_each_item_has_its_outcome_in_the_order_given(mill: Mill) -> None:
    there = {i: mill.new(payload=i, unique={}) for i in range(-5, 0)}
    results = mill.enqueue_all(bulk(list(there)), atomic=False)
    assert [r.position for r in results] == list(range(1_000))
    shared = [results[at] for at in range(100, 200, 10)]
    assert [r.deduplicated for r in shared] == [False] + [True] * 9
    assert len({r.job_id for r in shared}) == 1
    assert [(results[500 + at].deduplicated, results[500 + at].job_id) for at in range(5)] == [(True, job_id) for job_id in there.values()]
    assert (results[777].code, results[777].field, results[777].job_id, results[777].state) == ("validation_error", "queue", None, None)
    assert mill.count("jobs") == 5 + 1_000 - 9 - 5 - 1
    assert all(r.job_id and r.state == "queued" for r in results if r.position != 777)
    assert mill.misplaced() == []


def test_b040_all_or_nothing_stores_nothing_and_leaves_every_key_free(mill: Mill) -> None:
    there = {i: mill.new(payload=i, unique={}) for i in range(-5, 0)}
    with pytest.raises(Invalid) as caught:
        mill.enqueue_all(bulk(list(there)))
    assert [fault.loc for fault in caught.value.faults] == [("jobs", 777, "queue")]
    assert mill.count("jobs") == 5
    assert sorted(mill.holder()) == sorted(there.values())


@pytest.mark.parametrize("kind", ["unique", "idempotency", "both", "crossed"])
def test_b040_two_calls_with_the_keys_in_opposite_order_never_deadlock(mill: Mill, kind: str) -> None:
    """Many keys, many rounds, four callers (two each way), while a worker completes and frees keys in batches."""

    def job(i: int, number: int) -> dict[str, Any]:
        unique = {"payload": i, "unique": {}} if kind != "idempotency" else {"payload": i}
        by = {"unique": i, "idempotency": i, "both": i, "crossed": 59 - i}[kind]
        return {**unique, **({"idempotency_key": f"{by} {number}"} if kind != "unique" else {})}

    callers = [mill.another() for _ in range(4)]
    worker = mill.another()
    before, over = deadlocks(mill), threading.Event()
    answers: list[list[Enqueued]] = []

    def work() -> None:
        while not over.is_set():
            jobs = worker.claim(40)
            worker.settle(
                [
                    ack_of(job, Event.COMPLETE if n % 2 else Event.FAIL, **({} if n % 2 else {"retryable": False}))
                    for n, job in enumerate(jobs)
                ]
            )

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            for number in range(scaled(8)):
                jobs = [job(i, number) for i in range(60)]
                turned = list(reversed(jobs))
                answers += pool.map(lambda pair: pair[0].enqueue_all(pair[1]), zip(callers, [jobs, turned, jobs, turned], strict=True))
    finally:
        over.set()
        thread.join()
    assert deadlocks(mill) == before
    assert all(r.job_id and r.state and r.code is None for results in answers for r in results)
    known = {row[0] for row in mill.conn.execute("select id::text from tidemill.jobs")}
    assert {r.job_id for results in answers for r in results} <= known
    assert mill.misplaced() == []


def test_b040_an_idempotent_twin_of_a_job_whose_unique_key_is_held_answers_with_the_holder(mill: Mill) -> None:
    holder = mill.new(payload="u", unique={})
    twin = {"payload": "u", "unique": {}, "idempotency_key": "k"}
    results = mill.enqueue_all([twin, twin, {"payload": "u", "unique": {}}, twin])
    assert [(r.job_id, r.state, r.deduplicated) for r in results] == [(holder, "queued", True)] * 4
    assert mill.put(**twin).job_id == holder
    assert mill.misplaced() == []


def test_b040_an_idempotent_twin_of_a_twin_inside_the_call_answers_with_the_first(mill: Mill) -> None:
    results = mill.enqueue_all([
        {"payload": "u", "unique": {}},
        {"payload": "u", "unique": {}, "idempotency_key": "k"},
        {"payload": "u", "unique": {}, "idempotency_key": "k"},
    ])  # fmt: skip
    assert [r.job_id for r in results] == [results[0].job_id] * 3
    assert [r.deduplicated for r in results] == [False, True, True]
    assert mill.count("jobs") == 1
    assert mill.misplaced() == []


@pytest.mark.parametrize("atomic", [True, False])
def test_b040_one_idempotency_key_for_two_requests_refuses_the_second(mill: Mill, atomic: bool) -> None:
    jobs = [{"payload": 1, "idempotency_key": "k"}, {"payload": 2, "idempotency_key": "k"}, {"payload": 3}]
    if atomic:
        with pytest.raises(Invalid) as caught:
            mill.enqueue_all(jobs)
        assert [fault.loc for fault in caught.value.faults] == [("jobs", 1, "idempotency_key")]
        assert mill.count("jobs") == mill.count("unique_holds") == 0
    else:
        assert [r.code for r in mill.enqueue_all(jobs, atomic=False)] == [None, "idempotency_conflict", None]
        assert mill.count("jobs") == 2
