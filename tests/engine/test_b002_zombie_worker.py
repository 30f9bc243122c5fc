"""B002: a token that is over may not write anything at all."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.mill import Mill, ack_of, failure, lease_of
from tidemill.domain.errors import LeaseLost
from tidemill.domain.jobs import ClaimedJob, LogLine
from tidemill.domain.transitions import Event
from tidemill.engine import claim as claims
from tidemill.engine import report

LINE = LogLine(datetime(2030, 1, 1, tzinfo=UTC), "info", "still here")


def children(mill: Mill, job: ClaimedJob) -> Any:
    return report.children(mill.store, mill.project_id, lease_of(job), [{"job_type": "child"}])


REPORTS: dict[str, Callable[[Mill, ClaimedJob], Any]] = {
    "start": lambda mill, job: claims.start(mill.store, lease_of(job)),
    "progress": lambda mill, job: report.progress(mill.store, lease_of(job), 7, 9, "almost"),
    "checkpoint": lambda mill, job: report.checkpoint(mill.store, lease_of(job), '{"at": 9}', "c"),
    "output": lambda mill, job: report.output(mill.store, lease_of(job), '{"out": 9}'),
    "logs": lambda mill, job: report.logs(mill.store, lease_of(job), [LINE]),
    "children": children,
}
ACKS: dict[str, tuple[Event, dict[str, Any]]] = {
    "complete": (Event.COMPLETE, {"result": '"zombie"'}),
    "fail": (Event.FAIL, {"failure": failure("x" * 8_000, stack="s" * 8_000)}),
    "crash": (Event.CRASH, {"failure": failure("died"), "exit_code": -9}),
    "snooze": (Event.SNOOZE, {"delay_ms": 1_000}),
    "release": (Event.RELEASE, {}),
    "cancelled": (Event.ACK_CANCELLED, {}),
}


def zombie_and_heir(mill: Mill, heir: Mill) -> tuple[ClaimedJob, ClaimedJob]:
    """The same job, claimed by a worker whose lease ran out and then by another."""
    job_id = mill.new()
    stale = mill.claim_job(job_id)
    mill.lapse(job_id)
    assert mill.reap().retried == 1
    mill.make_due(job_id)
    return stale, heir.claim_job(job_id)


@pytest.mark.parametrize("verb", REPORTS)
def test_b002_a_report_of_a_zombie_writes_nothing(mill: Mill, verb: str) -> None:
    stale, fresh = zombie_and_heir(mill, mill.another())
    jobs, before = mill.count("jobs"), mill.stored(stale.job_id)
    with pytest.raises(LeaseLost) as caught:
        REPORTS[verb](mill, stale)
    assert caught.value.code == "lease_lost"
    assert mill.stored(stale.job_id) == before
    assert mill.count("jobs") == jobs
    assert mill.complete(fresh, "heir").status == "ok"


@pytest.mark.parametrize("verb", ACKS)
def test_b002_an_ack_of_a_zombie_writes_nothing_and_the_heir_finishes(mill: Mill, verb: str) -> None:
    heir = mill.another()
    stale, fresh = zombie_and_heir(mill, heir)
    before = mill.stored(stale.job_id)
    event, values = ACKS[verb]
    result = mill.ack(stale, event, **values)
    assert (result.status, result.state, result.code) == ("lease_lost", None, "lease_lost")
    assert mill.stored(stale.job_id) == before
    assert heir.complete(fresh, "heir").status == "ok"
    assert mill.executions(stale.job_id)[-1]["result"] == "heir"


def test_b002_a_heartbeat_of_a_zombie_is_lost_and_extends_nothing(mill: Mill) -> None:
    stale, _ = zombie_and_heir(mill, mill.another())
    before = mill.stored(stale.job_id)
    answer = mill.beat(stale)
    assert (list(answer.lost), list(answer.leases)) == ([stale.job_id], [])
    assert mill.stored(stale.job_id) == before


def test_b002_the_token_changes_on_every_claim_also_by_the_same_worker(mill: Mill) -> None:
    stale, fresh = zombie_and_heir(mill, mill)
    assert stale.lease_token != fresh.lease_token
    assert fresh.fence == stale.fence + 1
    assert mill.complete(stale).status == "lease_lost"


@pytest.mark.parametrize("event", [Event.COMPLETE, Event.FAIL])
def test_b002_a_stale_token_next_to_the_true_one_in_one_call_is_still_lost(mill: Mill, event: Event) -> None:
    stale, fresh = zombie_and_heir(mill, mill)
    results = mill.settle([ack_of(stale, event), ack_of(fresh, event)])
    assert [result.status for result in results] == ["lease_lost", "ok"]


@pytest.mark.parametrize("verb", [*REPORTS, *ACKS])
def test_b002_after_a_forced_cancel_the_worker_writes_nothing(mill: Mill, verb: str) -> None:
    from tidemill.engine.operate import cancel

    job = mill.claim_job(mill.new())
    cancel(mill.store, mill.project_id, job.job_id, force=True, roll=mill.roll)
    before = mill.stored(job.job_id)
    if verb in REPORTS:
        with pytest.raises(LeaseLost):
            REPORTS[verb](mill, job)
    elif verb != "cancelled":
        assert mill.ack(job, ACKS[verb][0], **ACKS[verb][1]).status == "lease_lost"
    assert mill.stored(job.job_id) == before


def test_b002_a_token_of_another_job_opens_nothing(mill: Mill) -> None:
    first, second = mill.new(), mill.new()
    one, two = mill.claim(2)
    assert {one.job_id, two.job_id} == {first, second}
    crossed = one._replace(lease_token=two.lease_token)
    before = (mill.stored(first), mill.stored(second))
    assert mill.complete(crossed).status == "lease_lost"
    assert list(mill.beat(crossed).lost) == [one.job_id]
    assert (mill.stored(first), mill.stored(second)) == before
