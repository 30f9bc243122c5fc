"""B042: the answer to an ack got lost. Its exact repeat is ok again, whatever contradicts it is refused, and everything moves once."""

from itertools import product
from typing import Any

import pytest

from harness.mill import FIXED, T0, M, Mill, S, ack_of, failure
from tidemill.domain.jobs import Ack, Heartbeat
from tidemill.domain.transitions import Event
from tidemill.engine import batch as batches
from tidemill.engine.exchange import exchange
from tidemill.engine.operate import cancel

SAYS: dict[str, tuple[Event, dict[str, Any], str]] = {
    "complete": (Event.COMPLETE, {"result": '{"a": 1}'}, "completed"),
    "complete otherwise": (Event.COMPLETE, {"result": '{"a": 2}'}, "completed"),
    "complete with nothing": (Event.COMPLETE, {}, "completed"),
    "fail": (Event.FAIL, {"failure": failure("one")}, "scheduled"),
    "fail otherwise": (Event.FAIL, {"failure": failure("two")}, "scheduled"),
    "fail for good": (Event.FAIL, {"failure": failure("one"), "retryable": False}, "dead_letter"),
    "crash": (Event.CRASH, {"failure": failure("one"), "exit_code": 137}, "scheduled"),
    "snooze": (Event.SNOOZE, {"delay_ms": 60_000}, "scheduled"),
    "snooze longer": (Event.SNOOZE, {"delay_ms": 61_000}, "scheduled"),
    "release": (Event.RELEASE, {}, "queued"),
    "cancelled": (Event.ACK_CANCELLED, {}, "cancelled"),
}


@pytest.mark.parametrize(("first", "second"), list(product(SAYS, SAYS)))
def test_b042_a_repeat_is_ok_and_a_contradiction_is_lost(shared_mill: Mill, first: str, second: str) -> None:
    mill = shared_mill
    job_id = mill.new(T0, job_type=f"{first} {second}".replace(" ", "-"), retry_policy=FIXED)
    job = mill.claim_job(job_id, now=T0, job_types=[f"{first} {second}".replace(" ", "-")])
    event, values, state = SAYS[first]
    answer = mill.ack(job, event, now=T0 + S, **values)
    assert (answer.status, answer.state) == ("ok", state)
    before = mill.stored(job_id)
    event, values, _ = SAYS[second]
    for _ in range(2):
        again = mill.ack(job, event, now=T0 + 2 * S, **values)
        if first == second:
            assert again.status == "ok"
            assert again.state == mill.state(job_id)
        else:
            assert (again.status, again.code) == ("lease_lost", "lease_lost")
        assert mill.stored(job_id) == before
    assert list(mill.beat(job, now=T0 + 2 * S).lost) == [job_id]
    assert mill.stored(job_id) == before


@pytest.fixture(scope="module")
def shared_mill(databases: Any) -> Any:
    """One database for the whole table of pairs."""
    from harness.mill import opened

    dsn = databases.clone()
    with opened(dsn) as mill:
        yield mill
    databases.drop(dsn)


def test_b042_a_repeat_is_ok_also_after_the_job_went_on(mill: Mill) -> None:
    job_id = mill.new(T0, retry_policy=FIXED)
    first = mill.claim_job(job_id, now=T0)
    said = ack_of(first, Event.FAIL, failure=failure())
    assert mill.settle([said], now=T0)[0].state == "scheduled"
    second = mill.claim_job(job_id, now=T0 + 2 * M)
    before = mill.stored(job_id)
    (answer,) = mill.settle([said], now=T0 + 2 * M)
    assert (answer.status, answer.state) == ("ok", "running")
    assert mill.stored(job_id) == before
    mill.complete(second, now=T0 + 2 * M)
    assert mill.settle([said], now=T0 + 3 * M)[0] == ("ok" and answer._replace(state="completed"))


def test_b042_of_two_acks_for_one_lease_in_a_call_the_first_counts(mill: Mill) -> None:
    job = mill.claim_job(mill.new())
    acks = [
        ack_of(job, Event.COMPLETE, result='"a"'),
        ack_of(job, Event.COMPLETE, result='"a"'),
        ack_of(job, Event.COMPLETE, result='"b"'),
        ack_of(job, Event.FAIL),
    ]
    assert [result.status for result in mill.settle(acks)] == ["ok", "ok", "lease_lost", "lease_lost"]
    assert [x["result"] for x in mill.executions(job.job_id)] == ["a"]


def test_b042_one_lost_ack_does_not_spoil_the_others_of_its_call(mill: Mill) -> None:
    mill.enqueue_all([{}] * 4)
    one, two, three, four = mill.claim(4)
    mill.complete(two)
    acks = [
        ack_of(one, Event.COMPLETE),
        ack_of(two, Event.FAIL, failure=failure()),
        Ack("00000000-0000-0000-0000-000000000000", one.lease_token, Event.RELEASE, 1),
        ack_of(three, Event.FAIL, failure=failure()),
        ack_of(four, Event.RELEASE),
    ]
    assert [(r.status, r.state) for r in mill.settle(acks)] == [
        ("ok", "completed"), ("lease_lost", None), ("lease_lost", None), ("ok", "scheduled"), ("ok", "queued"),
    ]  # fmt: skip
    assert mill.misplaced() == []


def test_b042_a_repeated_exchange_claims_anew_but_settles_once(mill: Mill) -> None:
    from tidemill.domain.jobs import ClaimRequest

    mill.enqueue_all([{}] * 3)
    job = mill.claim_one()
    ask = ClaimRequest(mill.project_id, mill.worker_id, ["default"], 1, None, 30_000)
    said = [ack_of(job, Event.COMPLETE, result="1")]

    def call() -> Any:
        return exchange(mill.store, mill.project_id, mill.worker_id, beat=Heartbeat([]), acks=said, claim=ask, roll=mill.roll)

    _, first, jobs = call()
    _, second, more = call()
    assert [first[0].status, second[0].status] == ["ok", "ok"]
    assert jobs[0].job_id != more[0].job_id
    assert len(mill.executions(job.job_id)) == 1


@pytest.mark.parametrize(("event", "counted"), [(Event.COMPLETE, (1, 0, 0)), (Event.FAIL, (0, 1, 0)), (Event.ACK_CANCELLED, (0, 0, 1))])
def test_b042_a_batch_its_callbacks_and_the_children_move_once(mill: Mill, event: Event, counted: tuple[int, int, int]) -> None:
    """The ack, its repeat, and what contradicts it: counters, callbacks and children are as after the first."""
    batch_id = "01900000-0000-7000-8000-000000000042"
    calls: Any = {name: {"job_type": name} for name in ("on_complete", "on_success", "on_failure")}
    (member,) = batches.create(mill.store, mill.project_id, batch_id, callbacks=calls, jobs=[{"job_type": "m"}], sealed=True)
    child = mill.new(depends_on=[member.job_id])
    job = mill.claim_job(str(member.job_id))
    values: dict[str, Any] = {"failure": failure(), "retryable": False} if event is Event.FAIL else {}

    def moved() -> Any:
        batch = mill.conn.execute("select completed_jobs, failed_jobs, cancelled_jobs, status::text from tidemill.job_batches").fetchone()
        return batch, mill.count("jobs"), mill.stored(child), mill.stored(job.job_id)

    assert mill.ack(job, event, **values).status == "ok"
    after = moved()
    assert after[0][:3] == counted
    assert mill.state(child) == ("queued" if event is Event.COMPLETE else "cancelled")
    assert mill.ack(job, event, **values).status == "ok"
    assert mill.ack(job, Event.COMPLETE, result="1").status == "lease_lost"
    assert mill.ack(job, Event.RELEASE).status == "lease_lost"
    assert moved() == after


def test_b042_an_exchange_neither_extends_nor_reports_lost_what_it_acks(mill: Mill) -> None:
    from harness.mill import lease_of

    mill.enqueue_all([{}] * 2)
    one, two = mill.claim(2)
    answer, results, _ = exchange(
        mill.store,
        mill.project_id,
        mill.worker_id,
        beat=Heartbeat([lease_of(one), lease_of(two)]),
        acks=[ack_of(one, Event.COMPLETE)],
        roll=mill.roll,
    )
    assert answer is not None
    assert (list(answer.lost), [kept.job_id for kept in answer.leases]) == ([], [two.job_id])
    assert results[0].status == "ok"


def test_b042_a_repeated_cancelled_ack_after_an_asked_cancel(mill: Mill) -> None:
    job = mill.claim_job(mill.new())
    cancel(mill.store, mill.project_id, job.job_id, roll=mill.roll)
    said = ack_of(job, Event.FAIL, failure=failure())
    for _ in range(2):
        assert mill.settle([said])[0].state == "cancelled"
    assert mill.ack(job, Event.ACK_CANCELLED).status == "lease_lost"
    assert len(mill.executions(job.job_id)) == 1
