"""Undo: what a cancel or a discard moved goes back to where it was, as far as it is kept; what cannot is counted by reason."""

from __future__ import annotations

import random
from typing import Any

import pytest

from harness import bulk
from harness.dead import dead
from harness.mill import Mill
from tidemill.domain.errors import InvalidTransition, NotFound
from tidemill.domain.operations import Operation
from tidemill.domain.transitions import Event
from tidemill.engine import operations
from tidemill.engine.batch import create as create_batch
from tidemill.engine.bulk import Bulk
from tidemill.engine.dependants import sweep
from tidemill.engine.operate import delete, retry
from tidemill.engine.prune import OPERATION_KEPT_MS


def undone(mill: Mill, found: Operation) -> Operation:
    operations.undo(mill.store, mill.project_id, found.id)
    bulk.run(mill)
    after = bulk.seen(mill, found)
    assert after.status == "undone"
    return after


def cancelled(mill: Mill, **query: Any) -> Operation:
    return bulk.done(mill, "cancel", **(query or {"queue": "default"}))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"delay_ms": 60_000},
        {"hold": True},
        {"unique": {}},
        {"unique": {"window": "pending"}},
        {"partition_key": "p", "weight": 3},
        {"priority": 9},
    ],
    ids=["queued", "scheduled", "held", "unique", "unique while pending", "gated", "priority"],
)
def test_a_job_comes_back_as_it_was(mill: Mill, spec: dict[str, Any]) -> None:
    job_id = mill.new(**spec)
    before = mill.stored(job_id)
    found = cancelled(mill)
    assert mill.state(job_id) == "cancelled"
    assert undone(mill, found).undone == 1
    after = mill.stored(job_id)
    for one in (before, after):
        del one["jobs"][0]["updated_at"]
    assert after == before
    assert mill.misplaced() == []


def test_a_retry_that_waits_keeps_its_attempts(mill: Mill) -> None:
    job_id = mill.new()
    mill.fail(mill.claim_job(job_id))
    before = mill.stored(job_id)["entries"]
    undone(mill, cancelled(mill))
    assert mill.stored(job_id)["entries"] == before
    assert mill.view(job_id)["attempt_count"] == 1


def test_a_request_to_stop_is_withdrawn_while_the_job_runs(mill: Mill) -> None:
    job = mill.claim_job(mill.new())
    found = cancelled(mill)
    assert mill.beat(job).cancel == [job.job_id]
    assert undone(mill, found).undone == 1
    assert mill.beat(job).cancel == []
    assert mill.complete(job).status == "ok"


def test_a_job_that_was_stopped_runs_again_and_has_its_attempt_back(mill: Mill) -> None:
    job = mill.claim_job(mill.new(max_attempts=1))
    found = cancelled(mill)
    mill.ack(job, Event.ACK_CANCELLED)
    assert undone(mill, found).undone == 1
    again = mill.claim_job(job.job_id)
    assert (again.attempt, again.fence) == (1, 2)
    assert mill.misplaced() == []


def test_a_completion_that_won_stays(mill: Mill) -> None:
    job = mill.claim_job(mill.new())
    found = cancelled(mill)
    mill.complete(job)
    after = undone(mill, found)
    assert (after.undone, dict(after.undo_skips)) == (0, {"moved_on": 1})
    assert mill.state(job.job_id) == "completed"


def test_a_key_that_is_taken_meanwhile_keeps_the_job_cancelled(mill: Mill) -> None:
    job_id = mill.new(unique={})
    found = cancelled(mill)
    other = mill.new(unique={})
    after = undone(mill, found)
    assert (after.undone, dict(after.undo_skips)) == (0, {"unique_conflict": 1})
    assert (mill.state(job_id), mill.holder()) == ("cancelled", [other])


def test_what_is_no_longer_kept_is_counted(mill: Mill) -> None:
    ids = [mill.new(), mill.new()]
    found = cancelled(mill)
    delete(mill.store, mill.project_id, ids[0])
    after = undone(mill, found)
    assert (after.undone, dict(after.undo_skips)) == (1, {"moved_on": 1})


def test_a_family_comes_back_with_its_children_waiting(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(depends_on=[parent])
    grandchild = mill.new(depends_on=[child])
    found = cancelled(mill)
    assert [mill.state(job_id) for job_id in (parent, child, grandchild)] == ["cancelled"] * 3
    assert undone(mill, found).undone == 3
    assert [mill.state(job_id) for job_id in (parent, child, grandchild)] == ["queued", "pending", "pending"]
    for job_id in (parent, child, grandchild):
        mill.complete(mill.claim_job(job_id))
    assert mill.misplaced() == []


def test_a_child_whose_parent_failed_meanwhile_follows_its_own_rule(mill: Mill) -> None:
    parent = mill.new()
    kept = {rule: mill.new(depends_on=[parent], on_parent_failure=rule, tags=["c"]) for rule in ("cancel", "run", "hold")}
    found = cancelled(mill, tag=["c"])
    mill.fail(mill.claim_job(parent), retryable=False)
    after = undone(mill, found)
    assert (after.undone, dict(after.undo_skips)) == (2, {"parent_failed": 1})
    assert {rule: mill.state(job_id) for rule, job_id in kept.items()} == {"cancel": "cancelled", "run": "queued", "hold": "pending"}


def test_a_child_whose_parent_completed_meanwhile_goes(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(depends_on=[parent], tags=["c"])
    found = cancelled(mill, tag=["c"])
    mill.complete(mill.claim_job(parent))
    undone(mill, found)
    assert mill.state(child) == "queued"
    assert sweep(mill.store) == {"parents": 0}


def test_members_come_back_into_their_batch(mill: Mill) -> None:
    batch = "01900000-0000-7000-8000-0000000000aa"
    create_batch(mill.store, mill.project_id, batch, jobs=[{"job_type": "t"} for _ in range(3)], sealed=True)
    found = cancelled(mill)
    assert undone(mill, found).undone == 3
    counted = mill.store.batch(mill.project_id, batch)
    assert counted is not None and (counted.total, counted.cancelled, counted.status) == (3, 0, "sealed")
    for job in mill.claim(3):
        mill.complete(job)
    counted = mill.store.batch(mill.project_id, batch)
    assert counted is not None and (counted.completed, counted.status) == (3, "completed")


def test_discarded_dead_letters_open_again_unless_their_job_was_retried(mill: Mill) -> None:
    dead(mill, 6)
    found = bulk.done(mill, "discard", state=["dead_letter"])
    row = mill.conn.execute("select job_id::text from tidemill.dead_letter_queue limit 1").fetchone()
    assert row is not None
    retry(mill.store, mill.project_id, row[0])
    after = undone(mill, found)
    assert (after.undone, dict(after.undo_skips)) == (5, {"moved_on": 1})
    assert mill.conn.execute("select count(*) from tidemill.dead_letter_queue where not resolved").fetchone() == (5,)


def test_an_aborted_cancel_is_undone_as_far_as_it_came(mill: Mill) -> None:
    ids = [mill.new() for _ in range(10)]
    found = bulk.begun(mill, "cancel", queue="default")
    phase = Bulk(mill.store, clock=iter(range(1_000)).__next__)
    phase._size = 4
    phase.step()
    operations.abort(mill.store, mill.project_id, found.id)
    assert undone(mill, found).undone == 4
    assert {mill.state(job_id) for job_id in ids} == {"queued"}


def test_only_what_has_ended_and_can_be_undone_is(mill: Mill) -> None:
    plan = bulk.plan(mill, "cancel", queue="default")
    with pytest.raises(InvalidTransition, match="planned operation cannot be undone"):
        operations.undo(mill.store, mill.project_id, plan.id)
    done = bulk.done(mill, "promote", queue="default")
    with pytest.raises(InvalidTransition, match="only cancel and discard"):
        operations.undo(mill.store, mill.project_id, done.id)


def test_undo_in_small_batches_restores_each_once(mill: Mill) -> None:
    roll = random.Random(3)
    ids = [mill.new(**roll.choice([{}, {"hold": True}, {"delay_ms": 1_000_000}])) for _ in range(40)]
    before = [mill.state(job_id) for job_id in ids]
    found = cancelled(mill)
    operations.undo(mill.store, mill.project_id, found.id)
    bulk.run(mill, size=3)
    assert bulk.seen(mill, found).undone == 40
    assert [mill.state(job_id) for job_id in ids] == before
    assert mill.misplaced() == []


def test_operations_are_pruned_with_their_records_thirty_days_after_their_end(mill: Mill) -> None:
    for _ in range(3):
        mill.new()
    found = cancelled(mill)
    assert mill.count("operation_jobs") == 3
    assert mill.store.prune_operations(OPERATION_KEPT_MS, 2, now=None) == (0, 0)
    mill.conn.execute("update tidemill.operations set updated_at = now() - interval '30 days 1 minute'")
    assert [mill.store.prune_operations(OPERATION_KEPT_MS, 2, now=None) for _ in range(3)] == [(0, 2), (0, 1), (1, 0)]
    with pytest.raises(NotFound):
        bulk.seen(mill, found)
