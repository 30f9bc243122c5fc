"""B035: many callers enqueue one unique key at the same instant while a worker completes what they made."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.mill import Mill, scaled
from tidemill.domain.jobs import Enqueued

CALLERS = 50
ROUNDS = scaled(5)


def in_parallel(calls: list[Callable[[], Enqueued]]) -> list[Enqueued]:
    gate = threading.Barrier(len(calls))

    def call(one: Callable[[], Enqueued]) -> Enqueued:
        gate.wait(timeout=120)
        return one()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


@pytest.mark.parametrize("window", ["running", "pending"])
def test_b035_every_answer_is_well_formed_and_at_most_one_job_is_live(mill: Mill, window: str) -> None:
    """The worker claims and completes all the while; 50 callers at once, round after round."""
    callers = [mill.another() for _ in range(CALLERS)]
    worker, watcher = mill.another(), mill.another()
    over = threading.Event()
    wrong: list[object] = []
    done: list[str] = []

    def work() -> None:
        while not over.is_set():
            for job in worker.claim(10):
                if worker.complete(job).status != "ok":
                    wrong.append(job)
                done.append(job.job_id)

    def watch() -> None:
        over_at = {"running": "('completed')", "pending": "('completed', 'running')"}[window]  # what frees the key
        live = f"select count(*) from tidemill.job_states where status not in {over_at}"
        while not over.is_set():
            row = watcher.conn.execute(live.encode()).fetchone()
            if row is None or row[0] > 1:
                wrong.append(row)

    threads = [threading.Thread(target=work), threading.Thread(target=watch)]
    for thread in threads:
        thread.start()
    try:
        answers: list[Enqueued] = []
        for _ in range(ROUNDS):
            answers += in_parallel([lambda one=one: one.put(unique={"window": window}) for one in callers])
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert all(a.job_id and a.state and a.code is None and a.position == 0 for a in answers)
    created = [a.job_id for a in answers if not a.deduplicated]
    assert len(created) == len(set(created)) == mill.count("jobs")
    assert {a.job_id for a in answers} == set(created)
    assert len(done) == len(set(done))
    assert mill.misplaced() == []


def test_b035_an_idempotency_key_makes_one_job_for_ever(mill: Mill) -> None:
    callers = [mill.another() for _ in range(16)]
    answers = [a for _ in range(scaled(3)) for a in in_parallel([lambda one=one: one.put(idempotency_key="once") for one in callers])]
    assert len({a.job_id for a in answers}) == 1
    assert [a.deduplicated for a in answers].count(False) == 1
    mill.complete(mill.claim_one())
    assert mill.put(idempotency_key="once")[1:4] == (answers[0].job_id, "completed", True)


def test_b035_callers_that_roll_back_leave_the_key_to_the_next(mill: Mill) -> None:
    first, second = mill.another(), mill.another()

    class Undone(Exception):
        pass

    for _ in range(scaled(10)):
        gate = threading.Barrier(2)

        def undone(gate: threading.Barrier = gate) -> None:
            with pytest.raises(Undone), first.conn.transaction():
                first.put(unique={})
                gate.wait(timeout=120)
                raise Undone

        thread = threading.Thread(target=undone)
        thread.start()
        gate.wait(timeout=120)
        answer = second.put(unique={})
        thread.join()
        assert (answer.deduplicated, answer.state) == (False, "queued")
        second.complete(second.claim_one())
    assert mill.misplaced() == []
