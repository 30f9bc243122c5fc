"""Batches: open, sealed, ended; counters that always add up; callbacks once, in the last ack's transaction (cases B056, B058)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from harness.mill import Mill, ack_of, found_project, lease_of
from tidemill.domain.errors import Invalid, InvalidTransition, NotFound
from tidemill.domain.jobs import JobSpec
from tidemill.domain.transitions import Event
from tidemill.engine import batch as batches
from tidemill.engine import operate, report

ALL = ("on_complete", "on_success", "on_failure")
CALLBACKS: dict[str, JobSpec] = {name: {"job_type": name} for name in ALL}
COUNTERS = """
select status::text, total_jobs, completed_jobs, failed_jobs, cancelled_jobs from tidemill.job_batches where id = %s
"""


def made(mill: Mill, jobs: int = 0, *, sealed: bool = False, callbacks: dict[str, JobSpec] | None = None) -> tuple[str, list[str]]:
    """A batch with all callbacks and that many members."""
    batch_id = str(uuid.uuid4())
    members = batches.create(
        mill.store,
        mill.project_id,
        batch_id,
        callbacks=CALLBACKS if callbacks is None else callbacks,
        jobs=[{"job_type": "m"}] * jobs,
        sealed=sealed,
    )
    return batch_id, [str(m.job_id) for m in members]


def counters(mill: Mill, batch_id: str) -> tuple[str, int, int, int, int, int]:
    """Status, total, pending, completed, failed, cancelled; checked against the members themselves."""
    row = mill.conn.execute(COUNTERS, [batch_id]).fetchone()
    assert row is not None
    status, total, completed, failed, cancelled = row
    ended = dict.fromkeys(("completed", "dead_letter", "cancelled"), 0)
    for state, n in mill.conn.execute("select status::text, count(*) from tidemill.job_states where batch_id = %s group by 1", [batch_id]):
        ended[state] = n
    assert (completed, failed, cancelled) == (ended["completed"], ended["dead_letter"], ended["cancelled"])
    assert total == sum(ended.values())
    return status, total, total - completed - failed - cancelled, completed, failed, cancelled


def fired(mill: Mill, batch_id: str) -> list[str]:
    """The callbacks that were enqueued for the batch, in order."""
    rows = mill.conn.execute(
        "select headers->>'tidemill-batch-callback' from tidemill.jobs where headers->>'tidemill-batch-id' = %s order by id", [batch_id]
    )
    return [row[0] for row in rows]


def finish(mill: Mill, *events: Event) -> None:
    """Ends the next members so, in order."""
    for event in events:
        job = mill.claim_one(job_types=["m"])
        mill.ack(job, event) if event is Event.COMPLETE else mill.fail(job, retryable=False)


def test_b056_an_empty_batch_ends_at_sealing_and_fires(mill: Mill) -> None:
    batch_id, _ = made(mill)
    assert counters(mill, batch_id) == ("open", 0, 0, 0, 0, 0)
    assert fired(mill, batch_id) == []
    assert batches.seal(mill.store, mill.project_id, batch_id) == "completed"
    assert counters(mill, batch_id) == ("completed", 0, 0, 0, 0, 0)
    assert fired(mill, batch_id) == ["on_complete", "on_success"]


def test_b056_a_batch_created_sealed_and_empty_ends_at_once(mill: Mill) -> None:
    batch_id, _ = made(mill, sealed=True)
    assert (counters(mill, batch_id)[0], fired(mill, batch_id)) == ("completed", ["on_complete", "on_success"])


def test_b056_nothing_fires_before_sealing_though_each_member_ends_at_once(mill: Mill) -> None:
    batch_id, _ = made(mill)
    for n in range(1, 6):
        batches.add(mill.store, mill.project_id, batch_id, [{"job_type": "m"}])
        assert counters(mill, batch_id) == ("open", n, 1, n - 1, 0, 0)
        finish(mill, Event.COMPLETE)
        assert counters(mill, batch_id) == ("open", n, 0, n, 0, 0)
        assert fired(mill, batch_id) == []
    assert batches.seal(mill.store, mill.project_id, batch_id) == "completed"
    assert fired(mill, batch_id) == ["on_complete", "on_success"]


def test_b056_sealing_twice_changes_nothing(mill: Mill) -> None:
    batch_id, _ = made(mill, 1)
    assert batches.seal(mill.store, mill.project_id, batch_id) == "sealed"
    before = mill.conn.execute("select * from tidemill.job_batches").fetchall()
    assert batches.seal(mill.store, mill.project_id, batch_id) == "sealed"
    assert mill.conn.execute("select * from tidemill.job_batches").fetchall() == before
    finish(mill, Event.COMPLETE)
    assert batches.seal(mill.store, mill.project_id, batch_id) == "completed"
    assert fired(mill, batch_id) == ["on_complete", "on_success"]


def test_b056_a_batch_that_is_not_open_takes_no_jobs(mill: Mill) -> None:
    sealed, _ = made(mill, 1, sealed=True)
    ended, _ = made(mill, sealed=True)
    gone, _ = made(mill)
    batches.cancel_batch(mill.store, mill.project_id, gone, roll=mill.roll)
    for batch_id, status in ((sealed, "sealed"), (ended, "completed"), (gone, "cancelled")):
        with pytest.raises(InvalidTransition, match=f"a {status} batch cannot take jobs"):
            batches.add(mill.store, mill.project_id, batch_id, [{"job_type": "m"}])
        with pytest.raises(InvalidTransition):
            batches.add(mill.store, mill.project_id, batch_id, [])
        with pytest.raises(Invalid, match=f"batch_id: batch {batch_id} is {status}"):
            mill.new(batch_id=batch_id)
    assert counters(mill, sealed)[:3] == ("sealed", 1, 1)


def test_a_batch_of_another_project_is_not_there(mill: Mill) -> None:
    other = Mill(mill.dsn, mill.conn, found_project(mill.conn, "elsewhere"))
    batch_id, _ = made(other, 1)
    verbs: list[Callable[[], object]] = [
        lambda: batches.seal(mill.store, mill.project_id, batch_id),
        lambda: batches.cancel_batch(mill.store, mill.project_id, batch_id, roll=mill.roll),
        lambda: batches.add(mill.store, mill.project_id, batch_id, [{"job_type": "m"}]),
    ]
    for verb in verbs:
        with pytest.raises(NotFound):
            verb()
    assert counters(mill, batch_id) == ("open", 1, 1, 0, 0, 0)


def test_adding_is_all_or_nothing_and_a_repeat_by_key_answers_after_sealing(mill: Mill) -> None:
    batch_id, _ = made(mill)
    with pytest.raises(Invalid):
        batches.add(mill.store, mill.project_id, batch_id, [{"job_type": "m"}, {"job_type": "m", "queue": "nowhere"}])
    assert counters(mill, batch_id)[1] == 0
    keyed: list[JobSpec] = [{"job_type": "m", "idempotency_key": "k"}]
    first = batches.add(mill.store, mill.project_id, batch_id, keyed)
    assert batches.add(mill.store, mill.project_id, batch_id, keyed)[0].deduplicated
    assert counters(mill, batch_id)[1] == 1
    batches.seal(mill.store, mill.project_id, batch_id)
    again = batches.add(mill.store, mill.project_id, batch_id, keyed)
    assert (again[0].job_id, again[0].deduplicated) == (first[0].job_id, True)
    assert counters(mill, batch_id)[1] == 1


def test_b056_members_that_enqueue_unrelated_jobs_do_not_enlarge_the_batch(mill: Mill) -> None:
    batch_id, _ = made(mill, 1)
    job = mill.claim_one(job_types=["m"])
    report.children(mill.store, mill.project_id, lease_of(job), [{"job_type": "other"}, {"job_type": "m", "batch_id": batch_id}])
    assert counters(mill, batch_id)[1] == 2
    copy = mill.store.spec_of(mill.project_id, job.job_id)
    assert copy is not None
    assert "batch_id" not in copy


def test_callbacks_say_which_batch_and_which_they_are_and_run_as_any_job(mill: Mill) -> None:
    callbacks: dict[str, JobSpec] = {"on_complete": {"job_type": "sum", "payload": {"x": 1}, "priority": 3, "headers": {"a": "b"}}}
    batch_id, _ = made(mill, 1, sealed=True, callbacks=callbacks)
    finish(mill, Event.COMPLETE)
    job = mill.claim_one()
    assert (job.job_type, job.payload, job.priority) == ("sum", '{"x": 1}', 3)
    headers = mill.view(job.job_id)["headers"]
    assert headers == {"a": "b", "tidemill-batch-id": batch_id, "tidemill-batch-callback": "on_complete"}
    mill.complete(job)


def test_a_failure_ends_the_batch_with_its_own_callback(mill: Mill) -> None:
    batch_id, _ = made(mill, 3, sealed=True)
    finish(mill, Event.COMPLETE, Event.FAIL)
    assert (counters(mill, batch_id), fired(mill, batch_id)) == (("sealed", 3, 1, 1, 1, 0), [])
    finish(mill, Event.COMPLETE)
    assert counters(mill, batch_id) == ("completed_with_failures", 3, 0, 2, 1, 0)
    assert fired(mill, batch_id) == ["on_complete", "on_failure"]


def test_a_callback_that_cannot_be_enqueued_is_noted_and_the_ack_stands(mill: Mill) -> None:
    """A callback with a value that the database refuses used to refuse the last ack with it, for ever."""
    callbacks: dict[str, JobSpec] = {
        "on_complete": {"job_type": "x", "queue": "gone"},
        "on_success": {"job_type": "not a name!"},
    }
    with pytest.raises(Invalid, match=r"callbacks\.on_complete\.queue: queue 'gone' does not exist"):
        made(mill, callbacks=callbacks)
    assert mill.count("job_batches") == 0
    mill.queue("gone")
    batch_id, _ = made(mill, 1, sealed=True, callbacks=callbacks)
    mill.conn.execute("delete from tidemill.queues where name = 'gone'")
    finish(mill, Event.COMPLETE)
    assert counters(mill, batch_id)[0] == "completed"
    error = mill.conn.execute("select error from tidemill.job_batches").fetchone()
    assert error is not None
    assert "on_complete: queue: queue 'gone' does not exist" in error[0]
    assert "on_success: job: a value that the database cannot store" in error[0]


def test_a_good_callback_fires_beside_a_broken_one(mill: Mill) -> None:
    batch_id, _ = made(mill, sealed=True, callbacks={"on_complete": {"job_type": "no name!"}, "on_success": {"job_type": "good"}})
    assert fired(mill, batch_id) == ["on_success"]


def test_b058_a_dead_member_retried_reopens_the_batch_and_success_fires_once(mill: Mill) -> None:
    batch_id, members = made(mill, 2, sealed=True)
    finish(mill, Event.FAIL, Event.COMPLETE)
    assert counters(mill, batch_id) == ("completed_with_failures", 2, 0, 1, 1, 0)
    operate.retry(mill.store, mill.project_id, members[0])
    assert counters(mill, batch_id) == ("sealed", 2, 1, 1, 0, 0)
    finish(mill, Event.COMPLETE)
    assert counters(mill, batch_id) == ("completed", 2, 0, 2, 0, 0)
    assert fired(mill, batch_id) == ["on_complete", "on_failure", "on_success"]


def test_b058_a_retried_member_that_dies_again_fires_nothing_again(mill: Mill) -> None:
    batch_id, members = made(mill, 2, sealed=True)
    finish(mill, Event.FAIL, Event.COMPLETE)
    for _ in range(2):
        operate.retry(mill.store, mill.project_id, members[0])
        finish(mill, Event.FAIL)
        assert counters(mill, batch_id) == ("completed_with_failures", 2, 0, 1, 1, 0)
    assert fired(mill, batch_id) == ["on_complete", "on_failure"]


def test_b058_a_retried_member_that_is_cancelled_or_deleted_ends_the_batch_again(mill: Mill) -> None:
    batch_id, members = made(mill, 3, sealed=True)
    finish(mill, Event.FAIL, Event.FAIL, Event.COMPLETE)
    operate.retry(mill.store, mill.project_id, members[0])
    operate.retry(mill.store, mill.project_id, members[1])
    operate.cancel(mill.store, mill.project_id, members[0], roll=mill.roll)
    assert counters(mill, batch_id) == ("sealed", 3, 1, 1, 0, 1)
    operate.delete(mill.store, mill.project_id, members[1])
    assert counters(mill, batch_id) == ("completed_with_failures", 2, 0, 1, 0, 1)
    assert fired(mill, batch_id) == ["on_complete", "on_failure"]


@pytest.mark.parametrize("sealed", [True, False])
def test_b058_a_member_deleted_at_any_point_shrinks_the_batch(mill: Mill, sealed: bool) -> None:
    batch_id, members = made(mill, 4, sealed=sealed)
    finish(mill, Event.COMPLETE, Event.FAIL)
    open_or_sealed = "sealed" if sealed else "open"
    operate.delete(mill.store, mill.project_id, members[0])
    assert counters(mill, batch_id) == (open_or_sealed, 3, 2, 0, 1, 0)
    operate.delete(mill.store, mill.project_id, members[1])
    assert counters(mill, batch_id) == (open_or_sealed, 2, 2, 0, 0, 0)
    operate.delete(mill.store, mill.project_id, members[2])
    finish(mill, Event.COMPLETE)
    assert counters(mill, batch_id)[1:] == (1, 0, 1, 0, 0)
    assert fired(mill, batch_id) == (["on_complete", "on_success"] if sealed else [])


def test_b058_a_failed_member_deleted_after_the_end_leaves_the_end(mill: Mill) -> None:
    batch_id, members = made(mill, 2, sealed=True)
    finish(mill, Event.FAIL, Event.COMPLETE)
    operate.delete(mill.store, mill.project_id, members[0])
    assert counters(mill, batch_id) == ("completed_with_failures", 1, 0, 1, 0, 0)
    assert fired(mill, batch_id) == ["on_complete", "on_failure"]


def test_pruned_members_still_count(mill: Mill) -> None:
    batch_id, members = made(mill, 2, sealed=True)
    finish(mill, Event.COMPLETE)
    mill.store.prune(members[:1], now=None)
    finish(mill, Event.COMPLETE)
    row = mill.conn.execute(COUNTERS, [batch_id]).fetchone()
    assert row == ("completed", 2, 2, 0, 0)


def test_b058_cancel_while_half_runs_fires_nothing_and_adds_up_throughout(mill: Mill) -> None:
    batch_id, members = made(mill, 6, sealed=True)
    finish(mill, Event.COMPLETE)
    running = mill.claim(2)
    assert batches.cancel_batch(mill.store, mill.project_id, batch_id, roll=mill.roll) == "cancelled"
    assert counters(mill, batch_id) == ("cancelled", 6, 2, 1, 0, 3)
    assert mill.stored(members[5])["jobs"][0]["final_reason"] == "batch_cancelled"
    assert set(mill.beat(*running).cancel) == {job.job_id for job in running}
    mill.complete(running[0])
    assert mill.fail(running[1]).state == "cancelled"
    assert counters(mill, batch_id) == ("cancelled", 6, 0, 2, 0, 4)
    assert fired(mill, batch_id) == []
    assert batches.cancel_batch(mill.store, mill.project_id, batch_id, roll=mill.roll) == "cancelled"
    assert batches.seal(mill.store, mill.project_id, batch_id) == "cancelled"


def test_cancelling_an_open_batch_takes_waiting_held_and_scheduled_members(mill: Mill) -> None:
    batch_id, _ = made(mill)
    parent = mill.new()
    batches.add(
        mill.store,
        mill.project_id,
        batch_id,
        [
            {"job_type": "m", "hold": True},
            {"job_type": "m", "delay_ms": 60_000},
            {"job_type": "m", "depends_on": [parent]},
            {"job_type": "m", "ref": "a"},
            {"job_type": "m", "depends_on": [{"ref": "a"}]},
        ],
    )
    batches.cancel_batch(mill.store, mill.project_id, batch_id, roll=mill.roll)
    assert counters(mill, batch_id) == ("cancelled", 5, 0, 0, 0, 5)


def test_an_ended_batch_cannot_be_cancelled(mill: Mill) -> None:
    batch_id, _ = made(mill, sealed=True)
    with pytest.raises(InvalidTransition, match="a completed batch cannot be cancelled"):
        batches.cancel_batch(mill.store, mill.project_id, batch_id, roll=mill.roll)
    assert counters(mill, batch_id)[0] == "completed"


def test_a_large_batch_is_cancelled_to_its_last_member_behind_thousands_that_ended(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk used to look at the first members only: once those had ended, the rest was never cancelled."""
    monkeypatch.setattr(batches, "CANCEL_BATCH", 4)
    monkeypatch.setattr(batches, "WALK", 3)
    monkeypatch.setattr(batches, "WALKS", 4)
    batch_id, _ = made(mill, 40, sealed=True)
    finish(mill, *[Event.COMPLETE] * 25)
    batches.cancel_batch(mill.store, mill.project_id, batch_id, roll=mill.roll)
    passes = 0
    while batches.cancelling(mill.store, limit=10, roll=mill.roll)["batches"]:
        passes += 1
        counters(mill, batch_id)
    assert passes >= 3
    assert counters(mill, batch_id) == ("cancelled", 40, 0, 25, 0, 15)


def test_a_member_retried_after_the_batch_was_cancelled_runs_and_nothing_fires(mill: Mill) -> None:
    """The sweep used to cancel it again at once."""
    batch_id, members = made(mill, 2, sealed=True)
    finish(mill, Event.FAIL)
    batches.cancel_batch(mill.store, mill.project_id, batch_id, roll=mill.roll)
    operate.retry(mill.store, mill.project_id, members[0])
    assert batches.cancelling(mill.store, limit=10, roll=mill.roll) == {"batches": 0, "members": 0}
    assert counters(mill, batch_id) == ("cancelled", 2, 1, 0, 0, 1)
    finish(mill, Event.COMPLETE)
    assert counters(mill, batch_id) == ("cancelled", 2, 0, 1, 0, 1)
    assert fired(mill, batch_id) == []


def test_members_cancelled_for_their_parents_count_and_end_the_batch(mill: Mill) -> None:
    batch_id, _ = made(mill)
    batches.add(
        mill.store,
        mill.project_id,
        batch_id,
        [
            {"job_type": "m", "ref": "a"},
            {"job_type": "m", "ref": "b", "depends_on": [{"ref": "a"}]},
            {"job_type": "m", "depends_on": [{"ref": "b"}]},
        ],
    )
    batches.seal(mill.store, mill.project_id, batch_id)
    finish(mill, Event.FAIL)
    assert counters(mill, batch_id) == ("completed_with_failures", 3, 0, 0, 1, 2)
    assert fired(mill, batch_id) == ["on_complete", "on_failure"]


def test_members_born_cancelled_count_at_once(mill: Mill) -> None:
    parent = mill.new()
    mill.die(parent)
    batch_id, _ = made(mill)
    batches.add(mill.store, mill.project_id, batch_id, [{"job_type": "m", "depends_on": [parent]}])
    assert counters(mill, batch_id) == ("open", 1, 0, 0, 0, 1)
    assert batches.seal(mill.store, mill.project_id, batch_id) == "completed_with_failures"


def test_one_ack_call_may_end_several_batches(mill: Mill) -> None:
    made_ = [made(mill, 2, sealed=True)[0] for _ in range(3)]
    jobs = mill.claim(10)
    mill.settle([ack_of(job, Event.COMPLETE) for job in jobs])
    for batch_id in made_:
        assert (counters(mill, batch_id)[0], fired(mill, batch_id)) == ("completed", ["on_complete", "on_success"])


def test_a_member_may_be_a_parent_of_a_member_of_another_batch(mill: Mill) -> None:
    first, members = made(mill, 1, sealed=True)
    second, _ = made(mill)
    batches.add(mill.store, mill.project_id, second, [{"job_type": "m", "depends_on": [members[0]]}])
    batches.seal(mill.store, mill.project_id, second)
    operate.delete(mill.store, mill.project_id, members[0])
    assert counters(mill, first) == ("completed", 0, 0, 0, 0, 0)
    assert counters(mill, second) == ("completed_with_failures", 1, 0, 0, 0, 1)


def test_reaped_snoozed_and_released_members(mill: Mill) -> None:
    batch_id, _ = made(mill, 1, sealed=True)
    mill.ack(mill.claim_one(job_types=["m"]), Event.RELEASE)
    mill.ack(mill.claim_one(job_types=["m"]), Event.SNOOZE, delay_ms=0)
    assert counters(mill, batch_id) == ("sealed", 1, 1, 0, 0, 0)
    mill.conn.execute("update tidemill.jobs set max_attempts_override = 1")
    job: Any = mill.claim_one(job_types=["m"])
    mill.lapse(job.job_id)
    assert mill.reap().dead == 1
    assert counters(mill, batch_id) == ("completed_with_failures", 1, 0, 0, 1, 0)


def test_an_applications_transaction_that_adds_members_holds_the_seal_back(mill: Mill) -> None:
    batch_id, _ = made(mill)
    other = mill.another()
    with psycopg.connect(mill.dsn) as app:
        app.execute(
            "select * from tidemill.enqueue(%s, jsonb_build_array(jsonb_build_object('job_type', 'm', 'batch_id', %s::text)))",
            [mill.project_id, batch_id],
        )
        other.conn.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            batches.seal(other.store, mill.project_id, batch_id)
        app.commit()
    assert batches.seal(mill.store, mill.project_id, batch_id) == "sealed"
    assert counters(mill, batch_id) == ("sealed", 1, 1, 0, 0, 0)


def test_b056_a_member_that_makes_a_batch_of_its_own_enlarges_neither_and_each_calls_back(mill: Mill) -> None:
    outer, _ = made(mill, 1, sealed=True)
    job = mill.claim_one(job_types=["m"])
    inner, members = made(mill, 2, sealed=True)
    assert (counters(mill, outer)[:3], counters(mill, inner)[:3]) == (("sealed", 1, 1), ("sealed", 2, 2))
    mill.complete(job)
    assert (fired(mill, outer), fired(mill, inner)) == (["on_complete", "on_success"], [])
    for member in members:
        mill.complete(mill.claim_job(member))
    assert (fired(mill, outer), fired(mill, inner)) == (["on_complete", "on_success"],) * 2
    assert (counters(mill, outer)[:3], counters(mill, inner)[:3]) == (("completed", 1, 0), ("completed", 2, 0))
