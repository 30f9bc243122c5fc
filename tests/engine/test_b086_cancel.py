"""B086: cancel in every state, against workers that live, finish and die."""

import threading

import pytest

from harness.mill import FIXED, T0, M, Mill, S, scaled
from tidemill.domain import transitions
from tidemill.domain.errors import InvalidTransition, NotFound
from tidemill.domain.jobs import Edit, Lease, Move
from tidemill.domain.transitions import Event, ExecutionStatus, State, Transition
from tidemill.engine.operate import cancel, delete, edit, promote, reschedule, retry


def brought_to(mill: Mill, state: str) -> str:
    if state == "pending":
        return mill.new(T0, hold=True)
    if state == "scheduled":
        return mill.new(T0, delay_ms=60_000)
    job_id = mill.new(T0, retry_policy=FIXED)
    if state == "queued":
        return job_id
    if state == "cancelled":
        cancel(mill.store, mill.project_id, job_id, roll=mill.roll, now=T0)
        return job_id
    job = mill.claim_job(job_id, start=state != "claimed", now=T0)
    if state == "retrying":
        mill.fail(job, now=T0)
    elif state == "completed":
        mill.complete(job, now=T0)
    elif state == "dead_letter":
        mill.fail(job, retryable=False, now=T0)
    elif state == "quarantined":
        mill.store.settle(
            [Move(Lease(job.job_id, job.lease_token), Transition(State.QUARANTINED, ExecutionStatus.CRASHED, 1, 3, reason="crash"))], now=T0
        )
    return job_id


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("state", ["pending", "scheduled", "queued", "retrying", "quarantined"])
def test_b086_what_is_not_running_is_cancelled_at_once_and_never_claimed(mill: Mill, state: str, force: bool) -> None:
    job_id = brought_to(mill, state)
    assert cancel(mill.store, mill.project_id, job_id, force=force, roll=mill.roll, now=T0) is State.CANCELLED
    assert mill.state(job_id) == "cancelled"
    assert mill.claim(10, now=T0 + 10 * M) == []
    assert mill.view(job_id)["final_reason"] == "cancelled"
    assert mill.view(job_id)["attempt_count"] == (1 if state in ("retrying", "quarantined") else 0)
    assert mill.misplaced() == []


@pytest.mark.parametrize("state", ["completed", "cancelled", "dead_letter"])
def test_b086_what_has_ended_is_left_unchanged_with_a_conflict(mill: Mill, state: str) -> None:
    job_id = brought_to(mill, state)
    before = mill.stored(job_id)
    for force in (False, True):
        with pytest.raises(InvalidTransition) as caught:
            cancel(mill.store, mill.project_id, job_id, force=force, roll=mill.roll, now=T0)
        assert state in str(caught.value)
        assert "cancelled" in str(caught.value)
    assert mill.stored(job_id) == before


@pytest.mark.parametrize("state", ["claimed", "running"])
def test_b086_a_leased_job_is_asked_and_its_worker_learns_it_by_heartbeat(mill: Mill, state: str) -> None:
    job_id = mill.new(T0)
    job = mill.claim_job(job_id, start=state == "running", now=T0)
    assert cancel(mill.store, mill.project_id, job_id, roll=mill.roll, now=T0 + S).value == state
    assert cancel(mill.store, mill.project_id, job_id, roll=mill.roll, now=T0 + 2 * S).value == state
    row = mill.conn.execute("select cancel_requested_at from tidemill.job_leases").fetchone()
    assert row == (T0 + S,)
    assert list(mill.beat(job, now=T0 + 3 * S).cancel) == [job_id]
    assert mill.ack(job, Event.ACK_CANCELLED, now=T0 + 4 * S).state == "cancelled"
    assert mill.executions(job_id)[0]["status"] == "cancelled"


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (Event.COMPLETE, "completed"),
        (Event.FAIL, "cancelled"),
        (Event.CRASH, "cancelled"),
        (Event.SNOOZE, "cancelled"),
        (Event.RELEASE, "cancelled"),
    ],
)
def test_b086_a_completion_wins_over_an_asked_cancel_and_nothing_else_does(mill: Mill, event: Event, state: str) -> None:
    job = mill.claim_job(mill.new())
    cancel(mill.store, mill.project_id, job.job_id, roll=mill.roll)
    assert mill.ack(job, event).state == state
    assert mill.state(job.job_id) == state


def test_b086_a_dead_workers_job_becomes_cancelled_at_the_end_of_its_lease_without_another_run(mill: Mill) -> None:
    job = mill.claim_job(mill.new(T0), now=T0)
    cancel(mill.store, mill.project_id, job.job_id, roll=mill.roll, now=T0)
    assert mill.reap(now=T0 + 29 * S).expired == 0
    assert mill.reap(now=T0 + 31 * S).cancelled == 1
    assert mill.state(job.job_id) == "cancelled"
    assert len(mill.executions(job.job_id)) == 1
    assert mill.claim(now=T0 + 10 * M) == []


@pytest.mark.parametrize("force", [False, True])
def test_b086_cancel_and_complete_at_the_same_instant_have_two_legal_histories(mill: Mill, force: bool) -> None:
    """Five hundred races. Asked: the completion always wins. Forced: whoever comes first; the other is told so."""
    other = mill.another()
    rounds = scaled(250)
    mill.enqueue_all([{}] * rounds)
    jobs = []
    while batch := mill.claim(500, lease_ms=600_000):
        jobs += batch
    gate = threading.Barrier(2)
    said: list[str] = []

    def cancels() -> None:
        for job in jobs:
            gate.wait(timeout=120)
            try:
                said.append(cancel(other.store, mill.project_id, job.job_id, force=force, roll=mill.roll).value)
            except InvalidTransition as error:
                said.append(error.state)

    thread = threading.Thread(target=cancels)
    thread.start()
    acked = []
    for job in jobs:
        gate.wait(timeout=120)
        acked.append(mill.complete(job).status)
    thread.join()
    seen = set()
    for job, operator, worker in zip(jobs, said, acked, strict=True):
        history = (operator, worker, mill.state(job.job_id), len(mill.executions(job.job_id)))
        seen.add(history)
    legal = (
        {("cancelled", "lease_lost", "cancelled", 1), ("completed", "ok", "completed", 1)}
        if force
        else {("running", "ok", "completed", 1), ("completed", "ok", "completed", 1)}
    )
    assert seen <= legal, seen - legal
    assert mill.misplaced() == []


VERBS = {
    "cancel": lambda m, j: cancel(m.store, m.project_id, j, roll=m.roll, now=T0),
    "retry": lambda m, j: retry(m.store, m.project_id, j, now=T0),
    "promote": lambda m, j: promote(m.store, m.project_id, j, now=T0),
    "reschedule": lambda m, j: reschedule(m.store, m.project_id, j, T0 + 5 * M, now=T0),
    "edit": lambda m, j: edit(m.store, m.project_id, j, Edit(payload="1", priority=5, tags=["a"], schema_version=2), now=T0),
    "delete": lambda m, j: delete(m.store, m.project_id, j),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "state", ["pending", "scheduled", "queued", "claimed", "running", "completed", "cancelled", "dead_letter", "quarantined"]
)
def test_what_an_operator_may_do_is_what_the_jobs_actions_say(mill: Mill, state: str, verb: str) -> None:
    job_id = brought_to(mill, state)
    assert mill.state(job_id, now=T0) == state
    before = mill.stored(job_id)
    if verb in transitions.actions(State(state)):
        VERBS[verb](mill, job_id)
        if verb != "delete":
            assert mill.stored(job_id) != before
    else:
        with pytest.raises(InvalidTransition):
            VERBS[verb](mill, job_id)
        assert mill.stored(job_id) == before
    assert mill.misplaced() == []


@pytest.mark.parametrize("verb", VERBS)
def test_another_projects_job_is_not_there(mill: Mill, verb: str) -> None:
    from harness.mill import found_project

    job_id = mill.new(T0)
    before = mill.stored(job_id)
    stranger = mill.another()
    stranger.project_id = found_project(mill.conn, "other")
    for unknown in (job_id, "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(NotFound):
            VERBS[verb](stranger, unknown)
    assert mill.stored(job_id) == before
