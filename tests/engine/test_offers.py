"""Lanes of freed limits that a claim offers itself: which it takes, what becomes of the others, and that none is lost (docs/adr/0023)."""

import random
from typing import Any

import pytest

from harness.mill import T0, Mill, S, ack_of
from tidemill.domain.admission import StandingLimit
from tidemill.domain.jobs import ClaimedJob
from tidemill.domain.transitions import Event
from tidemill.engine import limits
from tidemill.engine.operate import delete

# a lane that is ready is in the circle of turns, or nobody ever comes to it
STRANDED = """
select l.partition_key, l.priority from tidemill.queue_lanes l
where l.is_ready and not exists (
    select 1 from tidemill.queue_partitions p where p.queue_id = l.queue_id and p.partition_key = l.partition_key and p.is_ready)
"""


def keys(n: int, **more: Any) -> list[dict[str, Any]]:
    return [{"concurrency": {"limit": 1, "key": f"k{i}"}, **more} for i in range(n)]


def complete(mill: Mill, jobs: list[ClaimedJob]) -> None:
    mill.settle([ack_of(job, Event.COMPLETE) for job in jobs])


def freed(mill: Mill, n: int, **more: Any) -> list[str]:
    """Jobs whose limits have just been freed, each the last one of its lane."""
    mill.enqueue_all(keys(n, **more))
    running = mill.claim(500)
    made = mill.enqueue_all(keys(n, **more))
    assert mill.claim(500) == []
    complete(mill, running)
    return [str(job.job_id) for job in made]


def test_a_shut_type_that_has_the_turn_leaves_the_partitions_of_freed_lanes_in_the_circle(mill: Mill) -> None:
    """The claim sets all lanes of the type aside, and with them partitions that have nothing else ready; what it offers is something."""
    limits.put_limit(mill.store, mill.project_id, StandingLimit("one", 0, job_type="shut"))
    jobs = freed(mill, 6, partition_key="z")
    mill.enqueue_all([{"job_type": "shut", "partition_key": f"a{n}"} for n in range(3)])
    taken = []
    for _ in jobs:
        taken += [job.job_id for job in mill.claim(1)]
        assert mill.conn.execute(STRANDED).fetchall() == []
    assert sorted(taken) == sorted(jobs)


@pytest.mark.parametrize("partition", [{}, {"partition_key": "p"}], ids=["no partition", "a partition"])
@pytest.mark.parametrize(("limit", "look"), [(1, 0.5), (1, 5), (3, 0.5), (16, 0.5)])
def test_what_small_claims_leave_of_many_freed_lanes_is_taken_by_the_next_ones(
    mill: Mill, partition: dict[str, str], limit: int, look: float
) -> None:
    """Also where a claim sees that the lane it took from is empty (its next look is near): the others keep their partition's turn."""
    jobs = freed(mill, 20, **partition)
    mill.conn.execute("update tidemill.queue_lanes set look_at = now() + %s", [look * S])
    mill.conn.execute(
        "update tidemill.lane_news n set places = array("  # written once more, the lanes have moved
        "select o.ctid from unnest(n.place_keys) with ordinality as k (key, i)"
        " join tidemill.queue_lanes o on o.limit_key = k.key order by k.i)"
    )
    taken = []
    for _ in range(-(-20 // limit)):
        taken += [job.job_id for job in mill.claim(limit)]
        assert mill.conn.execute(STRANDED).fetchall() == []
    assert sorted(taken) == sorted(jobs)


def test_what_somebody_holds_does_not_hide_the_other_lanes_of_its_limit(mill: Mill) -> None:
    """The job that a hint tells of is about to be deleted; the limit's other lane was empty when the hint was given."""
    low, high = keys(1)[0], keys(1, priority=5)[0]
    running = mill.claim_one() if mill.new(**low) else None
    assert running is not None
    gone, held = mill.new(**high), mill.new(**low)
    assert mill.claim(500) == []
    mill.conn.execute("update tidemill.queue_lanes set blocked_since = now() where priority = 5")
    delete(mill.store, mill.project_id, gone)
    complete(mill, [running])
    # as if the ack had not seen the empty lane
    mill.conn.execute("delete from tidemill.lane_news")
    mill.conn.execute(
        "insert into tidemill.lane_news (queue_id, places, spots, dues, place_keys)"
        " select l.queue_id, array[l.ctid], array[e.ctid], array[e.run_at], array[l.limit_key]"
        " from tidemill.queue_lanes l join tidemill.job_queue_entries e on e.lane = l.lane and e.priority = l.priority"
    )
    other = mill.another()
    with other.conn.transaction():
        delete(other.store, mill.project_id, held)
        late = mill.new(**high)
        assert [job.job_id for job in mill.claim(1) + mill.claim(1)] == [late]


def test_queues_that_share_a_limit_never_go_over_it_and_leave_no_place_free(mill: Mill) -> None:
    mill.queue("other")
    for queue in ("default", "other"):
        mill.enqueue_all(keys(10, queue=queue) * 3)
    rng, taken = random.Random(4), 0
    while taken < 60:
        jobs = [job for queue in rng.sample(["default", "other"], 2) for job in mill.claim(rng.choice([3, 100]), queues=(queue,))]
        jobs += mill.claim(100, queues=("other", "default"))
        held = mill.conn.execute("select count(distinct limit_key), count(*) from tidemill.job_leases").fetchone()
        left = mill.conn.execute(
            "select count(*) from tidemill.job_queue_entries e join tidemill.jobs j on j.id = e.job_id where not exists ("
            "select 1 from tidemill.job_leases l where l.limit_key = tidemill.limit_key(j.project_id, j.job_type, j.concurrency_key))"
        ).fetchone()
        assert held == (len(jobs), len(jobs))
        assert left == (0,)
        complete(mill, jobs)
        taken += len(jobs)


GENERAL = "is_chosen := v_others = 0"


def test_the_short_choice_takes_what_the_general_one_takes_and_sets_the_same_clock(mill: Mill) -> None:
    source = mill.conn.execute("select pg_get_functiondef('tidemill.choose_freed'::regproc)").fetchone()
    assert source is not None
    assert GENERAL in source[0]
    rng = random.Random(7)
    for round_ in range(12):
        priorities = rng.choice([[0], [0, 0, 5, -5]])
        specs = keys(rng.choice([3, 30, 130])) * rng.choice([1, 2, 3])
        mill.enqueue_all(
            [{**spec, "priority": rng.choice(priorities), "delay_ms": rng.randrange(900), "job_type": f"t{round_}"} for spec in specs],
            now=T0,
        )
        complete(mill, mill.claim(500, now=T0 + S))
        for limit in (1, 7, 64, 500):
            seen = []
            for is_general in (False, True):
                with mill.conn.transaction(force_rollback=True):
                    if is_general:
                        mill.conn.execute(source[0].replace(GENERAL, "is_chosen := false and v_others = 0").encode())
                    jobs = [job.job_id for job in mill.claim(limit, now=T0 + S)]
                    clock = mill.conn.execute("select virtual_time from tidemill.queue_clocks").fetchall()
                    seen.append(
                        (jobs, clock if len(priorities) == 1 else None)
                    )  # where a key has several lanes, the general one needs more rounds
            assert seen[0] == seen[1]
        complete(mill, mill.claim(500, now=T0 + S))


def test_even_parts_do_not_let_a_key_send_its_low_priority_first(mill: Mill) -> None:
    """Of 64 places, 31 lanes would have three each: the last ones of the high priority had none, and the low one its turn."""
    for priority in (0, 5):
        mill.enqueue_all(
            [{**spec, "priority": priority, "delay_ms": abs(30 * (priority == 0) - i)} for i, spec in enumerate(keys(31))], now=T0
        )
    assert [job.priority for job in mill.claim(64, now=T0 + S)] == [5] * 31


def test_an_empty_lane_of_a_limit_that_stays_full_goes_at_its_first_look(mill: Mill) -> None:
    freed(mill, 8)
    (jobs, lanes) = mill.claim(500), "select count(*) from tidemill.queue_lanes"
    assert len(jobs) == 8
    assert mill.conn.execute(lanes).fetchone() != (0,)  # one run in 32 ** 8 writes all of them
    mill.conn.execute("update tidemill.queue_lanes set look_at = now()")
    assert mill.claim(500) == []
    assert mill.conn.execute(lanes).fetchone() == (0,)
    complete(mill, jobs)
    (job,) = mill.enqueue_all(keys(1))
    assert [found.job_id for found in mill.claim(500)] == [job.job_id]


def test_a_queues_limit_counts_what_ran_before_it_however_often_it_comes_and_goes_and_moves(mill: Mill) -> None:
    """Leases are marked only while there is a limit; who sets one marks those from before."""
    mill.queue("other")

    def limit(most: int, queue: str) -> None:
        limits.put_limit(mill.store, mill.project_id, StandingLimit("l", most, queue=queue))

    for queue in ("default", "other"):
        mill.enqueue_all(keys(12, queue=queue, job_type=queue))
        assert len(mill.claim(4, queues=(queue,))) == 4
    limit(5, "default")
    assert len(mill.claim(9)) == 1
    limit(5, "other")  # the same limit, moved: the first queue has none
    assert [len(mill.claim(3)), len(mill.claim(9, queues=("other",)))] == [3, 1]
    limits.delete_limit(mill.store, mill.project_id, "l")
    assert len(mill.claim(2, queues=("other",))) == 2
    limit(8, "other")
    assert len(mill.claim(9, queues=("other",))) == 1
    limit(9, "default")
    assert len(mill.claim(9)) == 1
    limit(3, "default")
    assert mill.claim(9) == []
