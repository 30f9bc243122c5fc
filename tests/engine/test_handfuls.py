"""Claims of many: handfuls of each partition, never more than fits, and shares that stay exact (docs/adr/0021)."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.mill import T0, H, Mill, S, ack_of
from tidemill.domain.jobs import ClaimedJob
from tidemill.domain.transitions import Event
from tidemill.engine.operate import Edit, cancel, delete, edit, reschedule

MIGRATIONS = Path(__file__).parents[2] / "migrations"


def fill(mill: Mill, count: int, spread: int, **spec: object) -> None:
    """`count` jobs; `{i}` in a text becomes its number modulo `spread`."""
    for start in range(0, count, 1_000):
        mill.conn.execute(
            "select count(*) from tidemill.enqueue(%s, (select jsonb_agg(replace(%s, '{i}', lpad((i %% %s)::text, 3, '0'))::jsonb)"
            " from generate_series(1, %s) as i))",
            [mill.project_id, json.dumps({"job_type": "{i}", **spec}), spread, min(1_000, count - start)],
        )


def end_all(mill: Mill) -> None:
    mill.conn.execute("delete from tidemill.job_leases")


@pytest.mark.parametrize(("limit", "handful"), [(500, 7), (130, 2), (127, 1), (10, 1)])
def test_each_turn_of_a_large_claim_brings_a_handful(mill: Mill, limit: int, handful: int) -> None:
    """… and a claim of fewer than 128 jobs one, so that whoever wants few gets the finest shares."""
    fill(mill, 5_000, 500, partition_key="p{i}")
    jobs = mill.claim(limit)
    assert len(jobs) == limit
    counts = Counter(job.job_type for job in jobs)
    assert max(counts.values()) == handful
    assert len(counts) == -(-limit // handful)


def test_a_handful_never_takes_more_than_a_queue_has_places_for(mill: Mill) -> None:
    mill.conn.execute("update tidemill.queues set max_concurrency = 333")
    fill(mill, 2_000, 50, partition_key="p{i}")
    assert len(mill.claim(500)) == 333
    assert mill.claim(500) == []


def test_partitions_are_even_again_after_claims_of_many(mill: Mill) -> None:
    fill(mill, 6_000, 50, partition_key="p{i}")
    counts: Counter[str] = Counter()
    for _ in range(11):
        counts.update(job.job_type for job in mill.claim(500))
        end_all(mill)
        assert max(counts.values()) - min(counts[f"{i:03}"] for i in range(50)) <= 2 * 7
    counts.update(job.job_type for _ in range(2) for job in mill.claim(500))
    assert set(counts.values()) == {120}


def test_weights_hold_in_claims_of_many(mill: Mill) -> None:
    for name, weight in (("000", 1), ("001", 3)):
        mill.conn.execute(
            "insert into tidemill.queue_partitions (queue_id, partition_key, weight) select id, %s, %s from tidemill.queues",
            [f"p{name}", weight],
        )
    fill(mill, 8_000, 2, partition_key="p{i}")
    counts: Counter[str] = Counter()
    for _ in range(8):
        counts.update(job.job_type for job in mill.claim(500))
        end_all(mill)
    assert counts["000"] == pytest.approx(1_000, abs=8)


@pytest.mark.parametrize("limit", [10, 500])
def test_a_heavy_partition_gets_its_share_of_a_claim_with_fewer_jobs_than_partitions(mill: Mill, limit: int) -> None:
    """Its turns in one claim are as many as its weight says, however many others wait: 100 of 119."""
    mill.conn.execute("insert into tidemill.queue_partitions (queue_id, partition_key, weight) select id, 'p000', 100 from tidemill.queues")
    fill(mill, 2_000, 20, partition_key="p{i}")
    fill(mill, 1_000, 1, partition_key="p{i}")
    counts: Counter[str] = Counter()
    while counts.total() < 500:
        counts.update(job.job_type for job in mill.claim(limit))
        end_all(mill)
    assert counts["000"] == pytest.approx(500 * 100 / 119, abs=60)  # everybody's first handful comes first


def test_keys_of_limit_one_are_served_in_order_and_never_twice_at_once(mill: Mill) -> None:
    """Freed lanes are taken as they stand, beside those that were ready all the time."""
    fill(mill, 900, 90, concurrency={"limit": 1, "key": "k{i}"})
    order: list[str] = []
    held: list[list[ClaimedJob]] = []
    while len(order) < 900:
        jobs = mill.claim(30)
        kinds = [job.job_type for job in jobs]
        assert len(set(kinds)) == len(kinds)
        assert not set(kinds) & {job.job_type for batch in held for job in batch}
        order += kinds
        held.append(jobs)
        if len(held) > 2 or not jobs:
            assert held[0]  # nothing to take, and nothing at work that could let it in: somebody is lost
            mill.settle([ack_of(job, Event.COMPLETE) for job in held.pop(0)])
        assert not mill.misplaced()
    assert set(Counter(order).values()) == {10}
    for start in range(0, 900, 90):  # oldest first: no key is a whole round ahead of another
        assert len(set(order[start : start + 90])) >= 60


def test_freed_lanes_that_were_not_chosen_stay_claimable(mill: Mill) -> None:
    fill(mill, 40, 20, concurrency={"limit": 1, "key": "k{i}"})
    mill.settle([ack_of(job, Event.COMPLETE) for job in mill.claim(20)])
    first = mill.claim(5)
    rest = mill.claim(20)
    assert len(first) == 5
    assert len(rest) == 15


def test_a_job_promoted_in_front_of_its_lane_is_found(mill: Mill) -> None:
    """A lane is read from where its next job is due; an earlier one brings news that move it."""
    later = T0 + H
    first, second = (mill.new(T0, partition_key="p", delay_ms=ms) for ms in (1_000, 2_000))
    assert [job.job_id for job in mill.claim(1, now=later)] == [first]
    third = mill.new(T0, partition_key="p")
    assert [job.job_id for job in mill.claim(2, now=later)] == [third, second]


def moved_away(mill: Mill, job_id: str) -> int:
    assert edit(mill.store, mill.project_id, job_id, Edit(priority=7))
    return 1


def moved_back(mill: Mill, job_id: str) -> int:
    reschedule(mill.store, mill.project_id, job_id, datetime.now(UTC) + H)
    return 0


def deleted(mill: Mill, job_id: str) -> int:
    delete(mill.store, mill.project_id, job_id)
    return 0


def cancelled_and_pruned(mill: Mill, job_id: str) -> int:
    cancel(mill.store, mill.project_id, job_id, roll=mill.roll)
    mill.conn.execute("delete from tidemill.jobs where id = %s", [job_id])
    return 0


@pytest.mark.parametrize("is_joined", [False, True], ids=["alone", "joined by a later one"])
@pytest.mark.parametrize("taken_away", [moved_away, moved_back, deleted, cancelled_and_pruned])
def test_jobs_of_a_call_stay_claimable_when_the_one_that_was_told_of_is_taken_away(
    mill: Mill, taken_away: Callable[[Mill, str], int], is_joined: bool
) -> None:
    """A call tells claims of one job in each lane. If nobody heard that before it was deleted or moved, the others were lost."""
    mill.enqueue_all([{"partition_key": "p", "concurrency": {"limit": 9, "key": "k"}}] * 3)
    ((first,),) = mill.conn.execute("select job_ids[1]::text from tidemill.lane_news").fetchall()
    still_there = taken_away(mill, first)
    if is_joined:
        mill.new(partition_key="p", concurrency={"limit": 9, "key": "k"})
    assert not mill.misplaced()
    assert len(mill.claim(9)) == 2 + still_there + is_joined


def test_an_upgrade_finds_the_jobs_that_were_lost_so(mill: Mill) -> None:
    later = T0 + H
    mill.enqueue_all([{"partition_key": name, "priority": level} for name in "pq" for level in (0, 3)] * 2, now=T0)
    mill.conn.execute("delete from tidemill.lane_news")
    mill.new(T0 + S, partition_key="p", priority=3)
    assert len(mill.claim(1, now=later)) == 1  # hides what is in front of it
    mill.conn.execute((MIGRATIONS / "0022_find_lost_lanes.sql").read_bytes())
    assert not mill.misplaced()
    assert len(mill.claim(20, now=later)) == 8
    mill.conn.execute((MIGRATIONS / "0022_find_lost_lanes.sql").read_bytes())
    assert mill.count("lane_news") == 0
