"""Claims from many processes at once, and what is committed beside and behind them."""

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg import Rollback

from harness.mill import T0, Mill, until, waiting_on_locks
from harness.processes import actors
from tidemill.domain.jobs import Edit
from tidemill.domain.transitions import Event
from tidemill.engine.operate import edit, promote, reschedule, retry
from tidemill.store import watermarks


def test_eight_processes_never_claim_the_same_job_twice(mill: Mill) -> None:
    mill.queue("other", priority=1)
    for _ in range(2):
        mill.enqueue_all([{"priority": n % 3} for n in range(600)])
    with actors(mill, "claim", 8, 7) as workers:
        said = [line for one in workers for line in one.rest()]
    assert "an ack was refused" not in said
    taken = Counter(job_id for line in said for job_id, _ in line)
    assert len(taken) == 1_200
    assert set(taken.values()) == {1}
    assert {fence for line in said for _, fence in line} == {1}
    assert mill.count("job_executions") == 1_200
    assert mill.misplaced() == []


@pytest.mark.parametrize("rolls_back", [False, True])
def test_a_job_at_a_priority_used_for_the_first_time_is_claimable_as_soon_as_it_is_committed(mill: Mill, rolls_back: bool) -> None:
    """Two transactions bring the same new priority at once; neither waits, and what is committed is visible however the first ends."""
    one, two, claimer = mill.another(), mill.another(), mill.another()
    for priority in range(1, 6):
        with one.conn.transaction() as first:
            early = one.new(priority=priority)
            late = two.new(priority=priority)
            assert [job.job_id for job in claimer.claim(10)] == [late]
            if rolls_back:
                raise Rollback(first)
        claimer.store.watermarks.forget()  # the machine may have stood still for longer than the marks lag behind
        assert [job.job_id for job in claimer.claim(10)] == ([] if rolls_back else [early])
    assert mill.misplaced() == []


def test_levels_do_not_pile_up(mill: Mill) -> None:
    """Also by edits, retries and promotions; and a level that stands there twice hands out each job once."""
    for _ in range(3):
        job_id = mill.new(priority=7)
        edit(mill.store, mill.project_id, job_id, Edit(priority=8))
        promote(mill.store, mill.project_id, mill.new(hold=True, priority=7))
        dead = mill.claim_one()
        mill.fail(dead, retryable=False)
        retry(mill.store, mill.project_id, dead.job_id)
    assert mill.count("queue_levels") == 2
    mill.conn.execute("insert into tidemill.queue_levels (queue_id, priority) select queue_id, priority from tidemill.queue_levels")
    jobs = mill.claim(100)
    assert len(jobs) == len({job.job_id for job in jobs}) == 6
    assert [job.priority for job in jobs] == [8, 8, 8, 7, 7, 7]


def test_a_priority_given_by_an_edit_for_the_first_time_is_claimed_too(mill: Mill) -> None:
    low, high = mill.new(), mill.new()
    edit(mill.store, mill.project_id, high, Edit(priority=321))
    assert [job.job_id for job in mill.claim(2)] == [high, low]


def ahead(mill: Mill, secs: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves the clock that the watermarks look at."""
    monkeypatch.setattr(mill.store.watermarks._turns, "_clock", lambda: time.time() + secs)


def test_a_row_committed_late_behind_the_watermark_is_claimed_within_five_seconds(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    late = mill.another()
    with late.conn.transaction():
        first = late.new()
        mill.conn.execute("select pg_sleep(0.25)")  # more than the watermark's lag
        mill.enqueue_all([{}] * 3)
        assert len(mill.claim(10)) == 3
    assert mill.claim(10) == []  # behind the mark
    ahead(mill, watermarks.FULL_SCAN_EVERY_SECS + 0.1, monkeypatch)
    assert [job.job_id for job in mill.claim(10)] == [first]


def test_watermarks_of_other_job_types_queues_and_priorities_do_not_hide_a_job(mill: Mill) -> None:
    """Under steady claims of one kind, the older jobs of another stay visible to those who ask for them."""
    mill.queue("q2")
    slow = [mill.new(job_type="slow"), mill.new(job_type="slow", priority=1), mill.new(job_type="slow", queue="q2")]
    mill.conn.execute("select pg_sleep(0.25)")
    for _ in range(5):
        fast = mill.new(job_type="fast")
        assert mill.claim_one(job_types=["fast"]).job_id == fast
    found = mill.claim(10, queues=["default", "q2"], job_types=["slow"])
    assert sorted(job.job_id for job in found) == sorted(slow)


def test_whoever_asks_for_all_job_types_sees_what_narrower_claims_passed_over(mill: Mill) -> None:
    old = mill.new(job_type="slow")
    mill.conn.execute("select pg_sleep(0.25)")
    mill.new(job_type="fast")
    assert mill.claim_one(job_types=["fast"])
    mill.new(job_type="fast")
    assert mill.claim_one().job_id == old


def test_jobs_that_come_back_by_any_way_are_never_behind_the_mark(mill: Mill) -> None:

    ids = [mill.new() for _ in range(6)] + [mill.new(delay_ms=60_000), mill.new(delay_ms=60_000), mill.new(hold=True)]
    mill.conn.execute("select pg_sleep(0.25)")
    jobs = {job.job_id: job for job in mill.claim(10)}
    mill.ack(jobs[ids[0]], Event.RELEASE)
    mill.fail(jobs[ids[1]], retry_delay_ms=0)
    mill.ack(jobs[ids[2]], Event.SNOOZE, delay_ms=0)
    mill.fail(jobs[ids[3]], retryable=False)
    retry(mill.store, mill.project_id, ids[3])
    mill.conn.execute("update tidemill.jobs set retry_policy = '{\"base_delay_ms\": 0}' where id = %s", [ids[4]])
    mill.lapse(ids[4])
    mill.reap()
    mill.complete(jobs[ids[5]])
    reschedule(mill.store, mill.project_id, ids[6], T0.replace(year=2001))
    promote(mill.store, mill.project_id, ids[7])
    promote(mill.store, mill.project_id, ids[8])
    assert {job.job_id for job in mill.claim(10)} == set(ids) - {ids[5]}


def test_a_job_committed_while_a_gated_claim_begins_comes_out_whole(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function sees it, the statement around it is older: somebody sets a limit just then, and a job comes in."""
    first = mill.new(partition_key="a", payload={"n": 1})
    worker, limiter, other = mill.another(), mill.another(), mill.another()
    other.conn.execute("begin")
    second = other.new(partition_key="b", job_type="late", payload={"n": 2})
    store = worker.store
    plain = store._claim_plain

    def then_hold(*args: Any) -> Any:
        found = plain(*args)
        limiter.conn.execute("begin")
        limiter.conn.execute("lock table tidemill.job_leases in share mode")
        return found

    monkeypatch.setattr(store, "_claim_plain", then_hold)
    with ThreadPoolExecutor(1) as pool:
        claimed = pool.submit(worker.claim, 2)
        until(lambda: waiting_on_locks(mill.conn))
        other.conn.execute("commit")
        limiter.conn.execute("commit")
        jobs = {job.job_id: job for job in claimed.result(60)}
    assert set(jobs) == {first, second}
    assert (jobs[second].job_type, json.loads(jobs[second].payload), jobs[second].max_attempts) == ("late", {"n": 2}, 5)
    worker.complete(jobs[second])
    assert mill.misplaced() == []
