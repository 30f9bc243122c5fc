"""Fair shares in figures: weights over 10,000 claims, a flood's delay of others, queues by priority and then by weight."""

import json
from collections import Counter

import pytest

from harness.mill import Mill
from tidemill.engine.operate import delete


def fill(mill: Mill, counts: dict[str, int], queue: str = "default") -> None:
    """Jobs of partitions, by the one way in."""
    for name, count in counts.items():
        for start in range(0, count, 1_000):
            mill.conn.execute(
                "select count(*) from tidemill.enqueue(%s, (select jsonb_agg(%s::jsonb) from generate_series(1, %s)))",
                [mill.project_id, json.dumps({"job_type": name, "partition_key": name, "queue": queue}), min(1_000, count - start)],
            )


def weigh(mill: Mill, **weights: int) -> None:
    for name, weight in weights.items():
        mill.conn.execute(
            "insert into tidemill.queue_partitions (queue_id, partition_key, weight) select id, %s, %s from tidemill.queues", [name, weight]
        )


def served(mill: Mill, claims: int, limit: int, queues: tuple[str, ...] = ("default",)) -> list[str]:
    """Whose jobs were claimed, in order; each is ended at once (job types stand for partitions)."""
    order: list[str] = []
    while len(order) < claims:
        jobs = mill.claim(min(limit, claims - len(order)), queues=queues)
        assert jobs
        order += [job.job_type for job in jobs]
        mill.conn.execute("delete from tidemill.job_leases where job_id = any(%s::uuid[])", [[job.job_id for job in jobs]])
    return order


def test_shares_follow_the_weights_over_ten_thousand_claims(mill: Mill) -> None:
    """1 : 2 : 4, within half a percent of the whole at the end, and within one claim's batch at every instant before."""
    weigh(mill, a=1, b=2, c=4)
    fill(mill, {"a": 1_700, "b": 3_200, "c": 6_000})
    order = served(mill, 10_000, 100)
    counts = Counter(order)
    print(f"shares of 10,000 claims at weights 1 : 2 : 4: {dict(counts)}")
    for name, weight in (("a", 1), ("b", 2), ("c", 4)):
        assert counts[name] == pytest.approx(10_000 * weight / 7, abs=50)
    for at in range(1_000, 10_001, 100):
        so_far = Counter(order[:at])
        for name, weight in (("a", 1), ("b", 2), ("c", 4)):
            assert so_far[name] == pytest.approx(at * weight / 7, abs=100)


def test_flood_delays_a_newcomer_by_no_more_claims_than_partitions_wait(mill: Mill) -> None:
    others = {f"p{i}": 5 for i in range(20)}
    fill(mill, {"flood": 10_000, **others})
    served(mill, 30, 1)
    fill(mill, {"newcomer": 1})
    order = served(mill, 30, 1)
    delay = order.index("newcomer") + 1
    print(f"a newcomer beside a flood of 10,000 and 20 other partitions came with claim {delay}")
    assert delay <= len(others) + 2


def test_dear_jobs_pay_for_their_weight_in_turns(mill: Mill) -> None:
    mill.enqueue_all([{"job_type": "dear", "partition_key": "dear", "weight": 4}] * 200)
    mill.enqueue_all([{"job_type": "cheap", "partition_key": "cheap"}] * 800)
    counts = Counter(served(mill, 200, 1))
    assert counts["dear"] == pytest.approx(40, abs=2)


def test_partitions_are_served_however_few_others_wait(mill: Mill) -> None:
    """Work-conserving: a share that nobody uses is everybody's."""
    weigh(mill, a=1, b=1_000)
    fill(mill, {"a": 500, "b": 3})
    counts = Counter(served(mill, 503, 50))
    assert counts == {"a": 500, "b": 3}


def test_partitions_with_jobs_for_other_workers_only_hide_no_job_from_this_one(mill: Mill) -> None:
    """They stay at the head of the circle, because nobody serves them: a claim of one looked at the first, a claim of 200 at 67."""
    mill.enqueue_all([{"partition_key": f"p{i:03}", "job_type": "a"} for i in range(130)])
    ours = mill.new(partition_key="q", job_type="b")
    assert [job.job_id for job in mill.claim(1, job_types=["b"])] == [ours]
    assert len(mill.claim(500)) == 130


def test_partitions_that_stick_to_a_worker_who_does_not_come_hide_no_job(mill: Mill) -> None:
    mill.conn.execute(
        "insert into tidemill.workers (id, project_id, name, max_concurrency, lease_ms) values (%s, %s, 'other', 9, 30000)",
        [mill.another().worker_id, mill.project_id],
    )
    mill.enqueue_all([{"partition_key": f"p{i:03}", "sticky_worker": "other"} for i in range(130)])
    ours = mill.new(partition_key="q")
    assert [job.job_id for job in mill.claim(1)] == [ours]
    assert len(mill.others[0].claim(500)) == 130


def test_jobs_without_gates_that_are_for_others_hide_no_gated_job_of_this_worker(mill: Mill) -> None:
    mill.enqueue_all([{"job_type": "a"}] * 3)
    ours = mill.new(job_type="b", concurrency={"limit": 1, "key": "k"})
    assert [job.job_id for job in mill.claim(1, job_types=["b"])] == [ours]


def test_a_claim_of_many_takes_a_partitions_highest_priority_first(mill: Mill) -> None:
    """Its lanes shared the turn, whatever their priority: 20 of 60 at 3 and 60 at 0 were ten of each."""
    mill.enqueue_all([{"partition_key": "p", "priority": level} for level in (0, 3) for _ in range(60)])
    assert [job.priority for job in mill.claim(20)] == [3] * 20
    assert [job.priority for job in mill.claim(60)] == [3] * 40 + [0] * 20


def test_what_limits_keep_the_highest_priority_from_giving_the_next_one_gives(mill: Mill) -> None:
    mill.enqueue_all([{"priority": 9, "concurrency": {"limit": 2, "key": f"k{i % 3}"}} for i in range(30)] + [{"priority": 0}] * 20)
    assert [job.priority for job in mill.claim(10)] == [9] * 6 + [0] * 4
    assert [job.priority for job in mill.claim(5)] == [0] * 5


def test_a_job_that_somebody_holds_keeps_nobody_of_lower_priority_from_running(mill: Mill) -> None:
    held = mill.new(partition_key="p", priority=9)
    mill.enqueue_all([{"partition_key": "p"}] * 3)
    other = mill.another()
    with other.conn.transaction():
        delete(other.store, mill.project_id, held)
        assert [job.priority for job in mill.claim(2)] == [0, 0]
    assert len(mill.claim(2)) == 1
    assert not mill.misplaced()


def test_claims_in_vain_change_nobodys_turn(mill: Mill) -> None:
    """Each lets partitions that wait at a limit leave the circle; they came back as if they had been served: the last ones never were."""
    mill.enqueue_all([{"partition_key": f"p{i:03}", "concurrency": {"limit": 1, "key": "K"}} for i in range(30)] * 2)
    counts: Counter[str] = Counter()
    for _ in range(30):
        (job,) = mill.claim(1)
        assert mill.claim(1) == []
        counts.update(mill.conn.execute("select partition_key from tidemill.jobs where id = %s", [job.job_id]).fetchone() or ())
        mill.complete(job)
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
def test_queues_go_by_priority_and_then_by_weight(mill: Mill, gated: bool) -> None:
    mill.conn.execute("select setseed(0.25)")
    for name, priority, weight in (("first", 5, 1), ("light", 0, 1), ("heavy", 0, 3)):
        mill.queue(name, priority=priority, weight=weight, **({"max_concurrency": 100_000} if gated else {}))
        jobs = [{"queue": name, "job_type": name}] * {"first": 40, "light": 200, "heavy": 300}[name]
        mill.enqueue_all(jobs)
    order = served(mill, 340, 1, ("light", "heavy", "first"))
    assert order[:40] == ["first"] * 40
    rest = Counter(order[40:])
    print(f"300 claims over two queues of one priority at weights 1 : 3: {dict(rest)}")
    assert rest["light"] == pytest.approx(75, abs=38)  # drawn: five standard deviations
