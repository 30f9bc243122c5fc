"""Hints of what is next under a limit of 1 (docs/limits.md): they hold or the limit's lanes are searched, and nothing waits behind them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.mill import T0, Mill, S, ack_of
from tidemill.domain.transitions import Event
from tidemill.engine.operate import Edit, cancel, delete, edit

KEY: dict[str, Any] = {"concurrency": {"limit": 1, "key": "K"}}
HIGH = {**KEY, "priority": 5}
HINTS = "select coalesce(sum(cardinality(places)), 0) from tidemill.lane_news"


def hints(mill: Mill) -> int:
    return int(mill.conn.execute(HINTS).fetchone()[0])  # type: ignore[index]  # one row


def ids(jobs: Any) -> list[str]:
    return [job.job_id for job in jobs]


def waiting(mill: Mill, *specs: dict[str, Any], first: dict[str, Any] = KEY) -> tuple[Any, list[str]]:
    """What runs under the limit, and jobs that wait for it, whose lanes are known to do so."""
    running = mill.claim_job(mill.new(**first))
    made = [mill.new(**spec) for spec in specs]
    assert mill.claim(500) == []
    return running, made


def name_worker(mill: Mill, name: str) -> None:
    mill.conn.execute(
        "insert into tidemill.workers (id, project_id, name, max_concurrency, lease_ms, last_seen_at) values (%s, %s, %s, 9, 30000, now())",
        [mill.worker_id, mill.project_id, name],
    )


def test_a_busy_limit_is_handed_on_by_hints_alone(mill: Mill) -> None:
    running, (job, _) = waiting(mill, KEY, KEY)
    mill.complete(running)
    told = "select sum(cardinality(places)), sum(cardinality(limit_keys)) from tidemill.lane_news"
    assert mill.conn.execute(told).fetchone() == (1, None)
    assert ids(mill.claim(2)) == [job]


def test_a_limit_with_several_lanes_is_searched_and_the_highest_priority_goes(mill: Mill) -> None:
    running, (_, high) = waiting(mill, KEY, HIGH)
    mill.complete(running)
    assert hints(mill) == 0
    assert ids(mill.claim(2)) == [high]


def test_a_job_that_comes_after_the_hint_to_a_lane_without_jobs_goes_by_its_priority(mill: Mill) -> None:
    running, (gone, _) = waiting(mill, HIGH, KEY)
    cancel(mill.store, mill.project_id, gone, roll=mill.roll)
    mill.complete(running)
    high = mill.new(**HIGH)
    assert ids(mill.claim(2)) == [high]


@pytest.mark.parametrize("take_away", [cancel, delete], ids=["cancelled", "deleted"])
@pytest.mark.parametrize("same_lane", [True, False])
def test_a_hint_whose_job_is_gone_does_not_hide_the_others_of_the_limit(mill: Mill, take_away: Callable[..., Any], same_lane: bool) -> None:
    running, (gone,) = waiting(mill, HIGH)
    low = mill.new(**(HIGH if same_lane else KEY))
    mill.complete(running)
    assert hints(mill) == 1
    take_away(mill.store, mill.project_id, gone, **({"roll": mill.roll} if take_away is cancel else {}))
    assert ids(mill.claim(1)) == [low]


@pytest.mark.parametrize("gate", [{"sticky_worker": "me"}, {"rate_class": "free"}], ids=["sticky", "rate"])
def test_a_lane_with_other_gates_is_not_passed_over_for_a_hint(mill: Mill, gate: dict[str, str]) -> None:
    name_worker(mill, "me")
    running, (high, _) = waiting(mill, HIGH | gate, KEY)
    mill.complete(running)
    assert ids(mill.claim(1)) == [high]


def test_a_lane_of_a_larger_limit_takes_the_place_that_is_none_for_a_limit_of_1(mill: Mill) -> None:
    five = {"concurrency": {"limit": 5, "key": "K"}}
    running = [mill.claim_job(mill.new(**five)) for _ in range(5)]
    _, fifth = mill.new(**KEY), mill.new(**five)
    assert mill.claim(500) == []
    mill.complete(running[0])
    assert ids(mill.claim(1) + mill.claim(1)) == [fifth]


def test_a_job_that_comes_due_between_hint_and_claim_goes_by_its_priority(mill: Mill) -> None:
    running = mill.claim_job(mill.new(T0, **KEY), now=T0)
    high = mill.new(T0, delay_ms=1_000, **HIGH)
    gone, _ = mill.enqueue_all([HIGH, KEY], now=T0)
    assert mill.claim(500, now=T0) == []
    delete(mill.store, mill.project_id, str(gone.job_id))
    mill.complete(running, now=T0)
    assert ids(mill.claim(1, now=T0 + 2 * S)) == [high]


def old_lane(mill: Mill) -> None:
    """The lane's due_at is of a job that went long before, as in a lane that is always busy."""
    mill.conn.execute("update tidemill.queue_lanes set due_at = due_at - interval '1 hour'")


@pytest.mark.parametrize("others", [0, 60])
def test_an_older_job_that_is_moved_in_front_of_a_hint_goes_first(mill: Mill, others: int) -> None:
    """Its priority is edited: it keeps its time. (Of more than fifty lanes, no hint is compared with them.)"""
    running = mill.claim_job(mill.new(**KEY))
    mill.new(**KEY)
    for n in range(others):
        mill.new(concurrency={"limit": 1, "key": f"k{n}"})
    assert len(mill.claim(500)) == others
    old_lane(mill)
    moved = mill.new(mill.conn.execute("select now() - interval '1 minute'").fetchone()[0], priority=-5, **KEY)  # type: ignore[index]  # one row
    mill.complete(running)
    assert hints(mill) == 1
    assert edit(mill.store, mill.project_id, moved, Edit(priority=0))
    if others:
        mill.conn.execute("insert into tidemill.lane_news (queue_id, job_id, run_at) select queue_id, id, run_at from tidemill.jobs")
    assert ids(mill.claim(1)) == [moved]


def test_a_job_whose_transaction_took_long_goes_before_a_hint_to_a_later_one(mill: Mill) -> None:
    running, _ = waiting(mill, KEY)
    slow = mill.another()
    with slow.conn.transaction():
        early = slow.new(mill.conn.execute("select now() - interval '1 minute'").fetchone()[0], **KEY)
        old_lane(mill)
        mill.complete(running)
        assert hints(mill) == 1
    assert ids(mill.claim(1)) == [early]


def test_a_claim_that_takes_some_job_types_or_comes_with_an_earlier_clock_finds_the_lane_of_a_hint(mill: Mill) -> None:
    running, (job, other) = waiting(mill, KEY, KEY)
    mill.complete(running)
    assert mill.claim(1, job_types=["u"]) == []
    running = mill.claim_job(job, job_types=["t"])
    mill.complete(running)
    assert mill.claim(1, now=T0 - 3650 * timedelta(days=1)) == []
    assert ids(mill.claim(1)) == [other]


def test_places_that_are_of_other_lanes_and_jobs_by_now_are_no_hints(mill: Mill) -> None:
    """As after a vacuum whose room was used again, or in a database that was restored: any place may hold anything, or nothing."""
    keys = [{"concurrency": {"limit": 1, "key": f"k{n}"}} for n in range(12)]
    mill.enqueue_all(keys)
    running = mill.claim(12)
    queued = ids(mill.enqueue_all(keys * 2))
    assert mill.claim(12) == []
    mill.settle([ack_of(job, Event.COMPLETE) for job in running[:6]])
    assert hints(mill) == 6
    for column in ("places", "spots"):
        mill.conn.execute(f"update tidemill.lane_news set {column} = {column}[2:] || {column}[1:1]".encode())
    mill.conn.execute("update tidemill.lane_news set spots[1] = '(70000,3)', places[2] = '(0,1)', spots[3] = '(0,1)'")
    taken = ids(mill.claim(12))
    assert sorted(taken) == sorted(job for job in queued[:12] if job in taken)
    assert len(taken) == 6
    assert mill.claim(12) == []
