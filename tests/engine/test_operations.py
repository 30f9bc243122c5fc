"""Bulk operations: each action moves its members, once, and the counters always add up."""

from __future__ import annotations

import random

import pytest

from harness import bulk
from harness.dead import dead
from harness.mill import Mill
from tidemill.domain.errors import Invalid, InvalidTransition, NotFound, PlanDrifted
from tidemill.engine import operations
from tidemill.engine.batch import create as create_batch
from tidemill.engine.bulk import Bulk
from tidemill.engine.operate import cancel, retry
from tidemill.engine.reap import reap


def kill_jobs(mill: Mill, count: int, **spec: object) -> list[str]:
    ids = [mill.new(**spec) for _ in range(count)]
    for job in mill.claim(count):
        mill.fail(job, retryable=False)
    return ids


def test_a_plan_says_what_it_would_touch_and_touches_nothing(mill: Mill) -> None:
    dead(mill, 120)
    mill.new()
    before = mill.conn.execute("select count(*), max(updated_at) from tidemill.jobs").fetchone()
    plan = bulk.plan(mill, "retry", state=["dead_letter"])
    assert (plan.status, plan.estimate, plan.is_approximate, len(plan.sample), plan.actions) == (
        "planned",
        120,
        False,
        10,
        ["apply", "abort"],
    )
    assert plan.counts["by_state"] == {"dead_letter": 120}
    assert plan.counts["by_job_type"] == [{"name": f"mail.{n}", "count": 40} for n in range(3)]
    assert plan.counts["by_error_class"] == [{"name": f"Boom{n}", "count": 30} for n in range(4)]
    bulk.run(mill)
    assert mill.conn.execute("select count(*), max(updated_at) from tidemill.jobs").fetchone() == before
    assert bulk.plan(mill, "retry", state=["dead_letter"]).hash == plan.hash
    assert bulk.plan(mill, "delete", state=["dead_letter"]).hash != plan.hash


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"job_type": "mail.1"}, 40),
        ({"job_type_prefix": "mail."}, 120),
        ({"error_class": "Boom2"}, 30),
        ({"queue": "default", "job_type": "mail.0", "error_class": "Boom0"}, 10),
        ({"correlation_id": "nobody"}, 0),
        ({"created_before": "2020-01-01T00:00:00.000000Z"}, 0),
    ],
)
def test_a_filter_means_the_same_to_a_plan_and_its_application(mill: Mill, query: dict[str, str], count: int) -> None:
    dead(mill, 120)
    done = bulk.done(mill, "retry", **query)
    assert (done.estimate, done.status, done.affected, done.total, done.skipped) == (count, "completed", count, count, 0)
    assert mill.count("job_queue_entries") == count


def test_an_empty_filter_is_never_everything(mill: Mill) -> None:
    with pytest.raises(Invalid, match="filter: is empty"):
        bulk.plan(mill, "delete")


@pytest.mark.parametrize(
    ("action", "states", "word"),
    [
        ("retry", ["queued"], "dead_letter"),
        ("cancel", ["completed"], "pending"),
        ("delete", ["running"], "completed"),
        ("promote", ["queued"], "scheduled"),
    ],
)
def test_states_that_an_action_can_do_nothing_with_are_refused_by_name(mill: Mill, action: str, states: list[str], word: str) -> None:
    with pytest.raises(Invalid, match=f"filter.state: {action} can do nothing with {states[0]} jobs: .*{word}"):
        bulk.plan(mill, action, state=states)


def test_a_queue_that_does_not_exist_is_refused(mill: Mill) -> None:
    with pytest.raises(Invalid, match="queue 'defualt' does not exist"):
        bulk.plan(mill, "cancel", queue="defualt")


def test_retrying_many_is_what_retrying_one_is(mill: Mill) -> None:
    one, other = (
        kill_jobs(mill, 2, unique={}, payload={"n": 1}, priority=7)[:1],
        kill_jobs(mill, 1, unique={}, payload={"n": 2}, priority=7),
    )
    retry(mill.store, mill.project_id, one[0])
    assert bulk.done(mill, "retry", state=["dead_letter"]).affected == 1
    first, second = mill.stored(one[0]), mill.stored(other[0])
    fixed = ("phase", "attempt_count", "fence", "finalized_at", "retention_until", "final_reason", "priority", "lane")
    assert [first["jobs"][0][name] for name in fixed] == [second["jobs"][0][name] for name in fixed]
    assert [d["resolution_action"] for d in second["dead"]] == ["retry"]
    assert second["entries"][0]["run_at"] == second["jobs"][0]["run_at"]
    assert sorted(mill.holder()) == sorted(one + other)
    assert mill.misplaced() == []


def test_b038_requeue_all_by_filter_skips_those_whose_key_is_taken_and_counts_them(mill: Mill) -> None:
    mill.enqueue_all([{"payload": i, "unique": {}} for i in range(100)])
    ids = {}
    for job in mill.claim(100):
        mill.fail(job, retryable=False)
        ids[int(job.payload)] = job.job_id
    siblings = [mill.new(payload=i, unique={}) for i in (3, 50, 99)]
    before = {i: mill.stored(ids[i]) for i in (3, 50, 99)}
    done = bulk.done(mill, "retry", state=["dead_letter"])
    assert (done.status, done.affected, dict(done.skips), done.total) == ("completed", 97, {"unique_conflict": 3}, 100)
    assert {i: mill.stored(ids[i]) for i in (3, 50, 99)} == before
    assert set(siblings) <= set(mill.holder()) and len(mill.holder()) == 100
    assert mill.misplaced() == []


def test_b038_of_two_dead_ones_with_one_key_the_older_comes_back(mill: Mill) -> None:
    first = kill_jobs(mill, 1, unique={})[0]
    second = kill_jobs(mill, 1, unique={})[0]
    done = bulk.done(mill, "retry", state=["dead_letter"])
    assert (done.affected, dict(done.skips)) == (1, {"unique_conflict": 1})
    assert (mill.state(first), mill.state(second)) == ("queued", "dead_letter") if first < second else ("dead_letter", "queued")


def test_cancel_reaches_every_live_state_and_leaves_what_has_ended(mill: Mill) -> None:
    running = mill.new()
    mill.claim_job(running)
    ended = mill.new()
    mill.complete(mill.claim_job(ended))
    ids = {"queued": mill.new(), "scheduled": mill.new(delay_ms=60_000), "pending": mill.new(hold=True)}
    done = bulk.done(mill, "cancel", queue="default")
    assert (done.affected, done.skipped, done.total) == (4, 0, 4)
    assert [mill.state(job_id) for job_id in ids.values()] == ["cancelled"] * 3
    assert mill.state(ended) == "completed"
    assert mill.state(running) == "running"
    assert mill.view(running)["cancel_requested_at"] is not None
    assert mill.misplaced() == []


def test_cancel_frees_keys_and_tells_parents_children_and_batches(mill: Mill) -> None:
    key = mill.new(unique={}, tags=["x"])
    parent = mill.new(tags=["x"])
    child = mill.new(depends_on=[parent])
    batch = "01900000-0000-7000-8000-0000000000aa"
    create_batch(mill.store, mill.project_id, batch, jobs=[{"job_type": "t", "tags": ["x"]} for _ in range(3)], sealed=True)
    done = bulk.done(mill, "cancel", tag=["x"])
    assert done.affected == 5
    assert (mill.state(child), mill.view(child)["final_reason"]) == ("cancelled", "parent_failed")
    assert mill.put(unique={}).job_id != key
    found = mill.store.batch(mill.project_id, batch)
    assert found is not None and (found.total, found.cancelled, found.status) == (3, 3, "completed_with_failures")


def test_retry_takes_failed_members_back_into_their_batch(mill: Mill) -> None:
    batch = "01900000-0000-7000-8000-0000000000aa"
    create_batch(mill.store, mill.project_id, batch, jobs=[{"job_type": "t"} for _ in range(3)], sealed=True)
    for job in mill.claim(3):
        mill.fail(job, retryable=False)
    assert bulk.done(mill, "retry", batch_id=batch).affected == 3
    found = mill.store.batch(mill.project_id, batch)
    assert found is not None and (found.total, found.failed, found.status) == (3, 0, "sealed")
    for job in mill.claim(3):
        mill.complete(job)
    found = mill.store.batch(mill.project_id, batch)
    assert found is not None and (found.completed, found.status) == (3, "completed")


def test_a_parent_and_its_children_in_one_filter_are_each_cancelled_once(mill: Mill) -> None:
    parent = mill.new()
    children = [mill.new(depends_on=[parent]) for _ in range(3)]
    done = bulk.done(mill, "cancel", queue="default")
    assert (done.affected, done.skipped, done.total) == (4, 0, 4)
    assert {mill.view(child)["final_reason"] for child in children} == {"cancelled"}


def test_promote_lets_pending_jobs_go_and_makes_scheduled_ones_due(mill: Mill) -> None:
    ids = [mill.new(hold=True), mill.new(delay_ms=3_600_000, concurrency={"limit": 1}), mill.new(hold=True, partition_key="p")]
    mill.new()
    done = bulk.done(mill, "promote", queue="default")
    assert (done.affected, done.total) == (3, 3)
    assert [mill.state(job_id) for job_id in ids] == ["queued"] * 3
    assert mill.misplaced() == []
    assert len(mill.claim(10)) == 4


def test_delete_removes_what_is_not_leased_with_all_that_belongs_to_it(mill: Mill) -> None:
    dead(mill, 30)
    mill.complete(mill.claim_job(mill.new()))
    running = mill.new(unique={})
    mill.claim_job(running)
    mill.new(unique={}, payload={"n": 1}, idempotency_key="k")
    done = bulk.done(mill, "delete", queue="default")
    assert (done.affected, done.skipped, done.total) == (32, 0, 32)
    assert [mill.count(table) for table in ("jobs", "dead_letter_queue", "job_executions", "unique_holds")] == [1, 0, 0, 1]
    assert mill.state(running) == "running"


def test_discard_resolves_dead_letters_and_leaves_their_jobs_dead(mill: Mill) -> None:
    dead(mill, 20)
    done = bulk.done(mill, "discard", state=["dead_letter"], job_type="mail.1")
    assert (done.affected, done.total) == (7, 7)
    rows = mill.conn.execute(
        "select job_type, resolution_action, count(*) from tidemill.dead_letter_queue group by 1, 2 order by 1"
    ).fetchall()
    assert rows == [("mail.0", None, 6), ("mail.1", "discard", 7), ("mail.2", None, 7)]
    again = bulk.done(mill, "discard", state=["dead_letter"], job_type="mail.1")
    assert (again.affected, dict(again.skips)) == (0, {"already_resolved": 7})


def test_a_job_that_dies_after_the_operation_began_is_not_touched(mill: Mill) -> None:
    dead(mill, 30)
    job = mill.new()
    found = bulk.begun(mill, "retry", state=["dead_letter"])
    mill.fail(mill.claim_job(job), retryable=False)
    late = mill.new()
    mill.fail(mill.claim_job(late), retryable=False)
    bulk.run(mill, size=7)
    found = bulk.seen(mill, found)
    assert (found.affected, found.skipped, found.total) == (30, 0, 30)
    assert (mill.state(job), mill.state(late)) == ("dead_letter", "dead_letter")


def test_a_job_that_was_retried_and_died_again_meanwhile_is_not_retried_twice(mill: Mill) -> None:
    ids = kill_jobs(mill, 3)
    found = bulk.begun(mill, "retry", state=["dead_letter"])
    retry(mill.store, mill.project_id, ids[1])
    mill.fail(mill.claim_job(ids[1]), retryable=False)
    bulk.run(mill)
    found = bulk.seen(mill, found)
    assert (found.affected, dict(found.skips), found.total) == (2, {"changed": 1}, 3)
    assert mill.state(ids[1]) == "dead_letter"


def test_a_job_that_left_the_filter_is_skipped_and_counted(mill: Mill) -> None:
    ids = [mill.new() for _ in range(5)]
    found = bulk.begun(mill, "cancel", state=["queued"])
    cancel(mill.store, mill.project_id, ids[0], roll=random.random)
    mill.complete(mill.claim_job(ids[1]))
    bulk.run(mill)
    found = bulk.seen(mill, found)
    assert (found.affected, dict(found.skips), found.total) == (3, {"changed": 2}, 5)


def test_a_job_that_moves_within_the_filter_is_still_cancelled(mill: Mill) -> None:
    ids = [mill.new() for _ in range(3)]
    found = bulk.begun(mill, "cancel", queue="default")
    mill.claim_job(ids[0])  # queued -> running: still live
    mill.fail(mill.claim_job(ids[1]))  # -> waits for its next attempt
    bulk.run(mill)
    found = bulk.seen(mill, found)
    assert (found.affected, found.skipped) == (3, 0)
    assert mill.view(ids[0])["cancel_requested_at"] is not None
    assert mill.state(ids[1]) == "cancelled"


def test_a_dead_job_that_comes_back_meanwhile_is_no_member_of_a_cancel(mill: Mill) -> None:
    back = kill_jobs(mill, 1)[0]
    mill.new()
    found = bulk.begun(mill, "cancel", queue="default")
    retry(mill.store, mill.project_id, back)
    bulk.run(mill)
    assert (bulk.seen(mill, found).affected, mill.state(back)) == (1, "queued")


def test_a_match_that_has_grown_by_more_than_a_tenth_is_drifted(mill: Mill) -> None:
    dead(mill, 20)
    plan = bulk.plan(mill, "retry", state=["dead_letter"])
    dead(mill, 2)
    assert operations.apply(mill.store, mill.project_id, plan.id).total == 22
    operations.abort(mill.store, mill.project_id, plan.id)
    other = bulk.plan(mill, "retry", state=["dead_letter"])
    dead(mill, 3)
    with pytest.raises(PlanDrifted, match=r"matches 25 jobs now; the plan of .* had 22, and may grow by 10 % at most"):
        operations.apply(mill.store, mill.project_id, other.id)
    assert bulk.seen(mill, other).status == "planned"
    assert operations.apply(mill.store, mill.project_id, other.id, allow_drift=True).total == 25


def test_applying_again_changes_nothing_and_an_aborted_one_stays_aborted(mill: Mill) -> None:
    dead(mill, 5)
    found = bulk.begun(mill, "retry", state=["dead_letter"])
    assert operations.apply(mill.store, mill.project_id, found.id) == found
    bulk.run(mill)
    done = bulk.seen(mill, found)
    assert operations.apply(mill.store, mill.project_id, found.id) == done
    with pytest.raises(InvalidTransition, match="a completed operation cannot be aborted"):
        operations.abort(mill.store, mill.project_id, found.id)
    other = bulk.plan(mill, "delete", state=["dead_letter", "cancelled"])
    operations.abort(mill.store, mill.project_id, other.id)
    with pytest.raises(InvalidTransition, match="aborted operation cannot be applied"):
        operations.apply(mill.store, mill.project_id, other.id)


def test_an_abort_takes_hold_between_two_batches(mill: Mill) -> None:
    dead(mill, 100)
    found = bulk.begun(mill, "retry", state=["dead_letter"])
    phase = Bulk(mill.store, clock=iter(range(10_000)).__next__)
    phase._size = 30
    phase.step()
    stopped = operations.abort(mill.store, mill.project_id, found.id)
    bulk.run(mill)
    assert (stopped.status, stopped.affected) == ("aborted", 30)
    assert bulk.seen(mill, found) == stopped
    assert mill.count("job_queue_entries") == 30


def test_another_projects_operation_does_not_exist(mill: Mill) -> None:
    with pytest.raises(NotFound):
        operations.seen(mill.store, "01900000-0000-7000-8000-000000000099", bulk.plan(mill, "retry", queue="default").id)


def test_gated_jobs_come_back_to_lanes_that_claims_see(mill: Mill) -> None:
    ids = [mill.new(partition_key=f"p{n % 3}", concurrency={"limit": 1, "key": str(n)}) for n in range(9)]
    for _ in range(9):
        mill.fail(mill.claim_one(), retryable=False)
    assert bulk.done(mill, "retry", queue="default").affected == 9
    assert mill.misplaced() == []
    assert sorted(job.job_id for job in mill.claim(20)) == sorted(ids)


def test_a_running_job_that_was_asked_ends_as_cancelled_at_the_latest_with_its_lease(mill: Mill) -> None:
    job = mill.new()
    mill.claim_job(job)
    assert bulk.done(mill, "cancel", queue="default").affected == 1
    mill.lapse(job)
    reap(mill.store, limit=10, roll=mill.roll)
    assert mill.state(job) == "cancelled"


def test_a_queue_stays_while_an_older_snapshot_may_still_put_a_job_into_it(mill: Mill) -> None:
    mill.queue("old")
    mill.new(queue="old")
    mill.conn.execute("delete from tidemill.job_queue_entries; delete from tidemill.jobs")
    app = mill.another()
    app.conn.execute("begin isolation level repeatable read")
    app.conn.execute("select 1 from tidemill.queues")
    closed = mill.store.close_queue(mill.project_id, "old")
    assert closed is not None
    assert mill.store.remove_closed_queue(*closed) is False
    job_id = app.new(queue="old")
    app.conn.execute("commit")
    assert mill.store.remove_closed_queue(*closed) is False
    assert mill.state(job_id) == "queued"
    mill.conn.execute("delete from tidemill.job_queue_entries; delete from tidemill.jobs")
    assert mill.store.remove_closed_queue(*closed) is True
