"""Gates of the claim: limits, rates, sticky workers, fair shares (docs/adr/0009)."""

from collections import Counter
from datetime import timedelta

import pytest

from harness.mill import T0, Mill, S
from tidemill.domain.transitions import Event
from tidemill.engine.operate import cancel, promote


def types(jobs: list) -> list[str]:
    return [job.job_type for job in jobs]


def drained(mill: Mill, *, limit: int = 10) -> list:
    """Claims and completes until nothing comes any more."""
    done: list = []
    while jobs := mill.claim(limit):
        done += jobs
        for job in jobs:
            mill.complete(job)
    return done


def partitions_of(mill: Mill, jobs: list) -> list[str | None]:
    rows = mill.conn.execute("select id::text, partition_key from tidemill.jobs where id = any(%s::uuid[])", [[j.job_id for j in jobs]])
    found = dict(rows.fetchall())
    return [found[job.job_id] for job in jobs]


def rate_class(mill: Mill, name: str, *, limit: int, window_ms: int, burst: int, tokens: float = 0, paused: bool = False) -> None:
    mill.conn.execute(
        'insert into tidemill.rate_classes (project_id, name, "limit", window_ms, burst, tokens, refilled_at, is_paused)'
        " values (%s, %s, %s, %s, %s, %s, %s, %s)",
        [mill.project_id, name, limit, window_ms, burst, tokens, T0, paused],
    )


def worker(mill: Mill, name: str) -> Mill:
    """One more worker, registered under that name."""
    made = mill.another()
    made.conn.execute(
        "insert into tidemill.workers (id, project_id, name, max_concurrency, lease_ms) values (%s, %s, %s, 1, 30000)",
        [made.worker_id, mill.project_id, name],
    )
    return made


def test_b043_one_claim_never_takes_more_of_a_key_than_its_limit(mill: Mill) -> None:
    mill.enqueue_all([{"concurrency": {"limit": 3, "key": "K"}}] * 20)
    first = mill.claim(10)
    assert len(first) == 3
    assert mill.claim(10) == []
    mill.complete(first[0])
    assert len(mill.claim(10)) == 1


def test_limit_without_a_key_counts_the_job_type_over_all_queues(mill: Mill) -> None:
    mill.queue("other")
    mill.enqueue_all([{"concurrency": {"limit": 2}, "queue": queue} for queue in ("default", "other") * 3])
    assert len(mill.claim(10, queues=("default", "other"))) == 2
    assert mill.claim(10, queues=("other",)) == []


def test_limit_by_a_payload_field_has_a_place_for_each_value(mill: Mill) -> None:
    mill.enqueue_all([{"concurrency": {"limit": 1, "by": "user"}, "payload": {"user": i % 3}} for i in range(9)])
    assert len(mill.claim(10)) == 3


def test_every_way_a_lease_ends_frees_the_place(mill: Mill) -> None:
    ends = [Event.COMPLETE, Event.FAIL, Event.RELEASE, Event.SNOOZE, Event.ACK_CANCELLED, Event.CRASH]
    mill.enqueue_all([{"concurrency": {"limit": 1, "key": "K"}}] * 20)
    for end in ends:
        job = mill.claim_one()
        assert mill.claim(5) == []
        mill.ack(job, end, **({"delay_ms": 3_600_000} if end is Event.SNOOZE else {}))
    job = mill.claim_one()
    cancel(mill.store, mill.project_id, job.job_id, force=True, roll=mill.roll)
    job = mill.claim_one()
    mill.lapse(job.job_id)
    assert mill.claim(5) == []  # the place is taken until the reaper has ended the lease
    mill.reap()
    assert mill.claim_one()


def test_b046_a_job_that_cannot_run_yet_does_not_hold_the_key(mill: Mill) -> None:
    key = {"concurrency": {"limit": 1, "key": "K"}}
    retrying = mill.new(priority=9, retry_policy={"strategy": "fixed", "base_delay_ms": 3_600_000, "jitter": False}, **key)
    mill.fail(mill.claim_job(retrying))
    tomorrow = mill.new(delay_ms=86_400_000, **key)
    ready = mill.new(**key)
    assert mill.claim_one().job_id == ready
    assert mill.state(retrying) == "scheduled"
    assert mill.state(tomorrow) == "scheduled"


def test_b047_ten_thousand_limited_jobs_in_front_cost_a_claim_nothing(mill: Mill) -> None:
    for _ in range(10):
        mill.enqueue_all([{"priority": 100, "concurrency": {"limit": 1, "key": "K"}}] * 1_000)
    mill.enqueue_all([{"job_type": "free"}] * 10)
    assert sorted(types(mill.claim(2))) == ["free", "t"]
    assert types(mill.claim(20)) == ["free"] * 9
    plan = mill.conn.execute(
        "explain (analyze, buffers, format json) select * from tidemill.claim_gated(%s, %s, 10, null, null, true, null)",
        [mill.conn.execute("select id from tidemill.queues").fetchone()[0], mill.worker_id],
    ).fetchone()
    assert plan is not None
    assert plan[0][0]["Plan"]["Shared Hit Blocks"] < 2_000


def test_b047_an_exhausted_rate_class_in_front_does_not_stop_the_rest(mill: Mill) -> None:
    rate_class(mill, "mail", limit=1, window_ms=3_600_000, burst=1)
    mill.enqueue_all([{"priority": 100, "rate_class": "mail"}] * 1_000, now=T0)
    mill.enqueue_all([{"job_type": "free"}] * 10, now=T0)
    assert types(mill.claim(20, now=T0 + S)) == ["free"] * 10
    assert types(mill.claim(20, now=T0 + timedelta(hours=2))) == ["t"]  # the queue has not stopped for good


def test_rate_class_pays_each_jobs_weight(mill: Mill) -> None:
    rate_class(mill, "api", limit=10, window_ms=1_000, burst=10, tokens=10)
    mill.enqueue_all([{"rate_class": "api", "weight": 4}] * 10, now=T0)
    assert len(mill.claim(10, now=T0)) == 2
    assert len(mill.claim(10, now=T0 + 0.15 * S)) == 0
    assert len(mill.claim(10, now=T0 + 0.2 * S)) == 1
    assert len(mill.claim(10, now=T0 + 3600 * S)) == 2  # never more than the burst


def test_job_dearer_than_the_bucket_runs_when_the_bucket_is_full(mill: Mill) -> None:
    rate_class(mill, "api", limit=10, window_ms=1_000, burst=5)
    mill.new(rate_class="api", weight=50, now=T0)
    assert mill.claim(1, now=T0 + 0.4 * S) == []
    assert len(mill.claim(1, now=T0 + 0.6 * S)) == 1


def test_paused_rate_class_stops_its_jobs_only(mill: Mill) -> None:
    rate_class(mill, "api", limit=10, window_ms=1_000, burst=10, tokens=10, paused=True)
    mill.new(rate_class="api", now=T0)
    mill.new(job_type="free", now=T0)
    assert types(mill.claim(5, now=T0 + S)) == ["free"]


def test_unknown_rate_class_does_not_block(mill: Mill) -> None:
    mill.new(rate_class="nobody-made-it")
    assert len(mill.claim(5)) == 1


def test_queue_concurrency_holds_over_workers(mill: Mill) -> None:
    mill.queue("small", max_concurrency=2)
    mill.enqueue_all([{"queue": "small"}] * 5)
    other = mill.another()
    first = mill.claim(10, queues=("small",))
    assert len(first) == 2
    assert other.claim(10, queues=("small",)) == []
    mill.complete(first[0])
    assert len(other.claim(10, queues=("small",))) == 1


def test_saturated_queue_may_ask_the_oldest_of_lowest_priority_to_stop(mill: Mill) -> None:
    mill.queue("small", max_concurrency=2, on_saturated="cancel_running")
    low = mill.new(queue="small", priority=-5)
    mill.new(queue="small", priority=5)
    running = mill.claim(2, queues=("small",))
    mill.new(queue="small", priority=9)
    assert mill.claim(1, queues=("small",)) == []
    assert mill.beat(*running).cancel == [low]


def test_sticky_job_waits_for_its_worker_while_that_one_lives(mill: Mill) -> None:
    home, away = worker(mill, "home"), worker(mill, "away")
    sticky = mill.new(sticky_worker="home")
    assert away.claim(1) == []
    assert home.claim_one().job_id == sticky
    orphan = mill.new(sticky_worker="home")
    mill.conn.execute("update tidemill.workers set last_seen_at = now() - interval '1 hour' where name = 'home'")
    assert away.claim_one().job_id == orphan


def test_flood_in_one_partition_delays_another_by_its_turn_only(mill: Mill) -> None:
    for _ in range(5):
        mill.enqueue_all([{"partition_key": "flood"}] * 1_000)
    for _ in range(20):
        mill.complete(mill.claim_one())
    small = mill.new(partition_key="small")
    turns = [mill.claim_one().job_id for _ in range(3)]
    assert small in turns


def test_partitions_share_by_weight(mill: Mill) -> None:
    for name, weight in (("a", 1), ("b", 3)):
        mill.conn.execute(
            "insert into tidemill.queue_partitions (queue_id, partition_key, weight) select id, %s, %s from tidemill.queues", [name, weight]
        )
    for name in ("a", "b"):
        mill.enqueue_all([{"partition_key": name}] * 400)
    served: list = []
    while len(served) < 400:
        jobs = mill.claim(10)
        served += partitions_of(mill, jobs)
        for job in jobs:
            mill.complete(job)
    assert Counter(served)["b"] == pytest.approx(300, abs=15)


def test_idle_partition_earns_no_credit(mill: Mill) -> None:
    mill.enqueue_all([{"partition_key": "busy"}] * 100)
    for _ in range(90):
        mill.complete(mill.claim_one())
    mill.enqueue_all([{"partition_key": "late"}] * 50)
    mill.enqueue_all([{"partition_key": "busy"}] * 50)
    counts = Counter(partitions_of(mill, mill.claim(20)))
    assert abs(counts["late"] - counts["busy"]) <= 2


def test_within_a_partition_priority_comes_first_then_time(mill: Mill) -> None:
    ids = [mill.new(partition_key="p", priority=p) for p in (0, 5, -1, 5)]
    assert [mill.claim_one().job_id for _ in range(4)] == [ids[1], ids[3], ids[0], ids[2]]


def test_plain_jobs_of_a_gated_queue_are_a_partition_of_their_own(mill: Mill) -> None:
    mill.enqueue_all([{"partition_key": "p"}] * 50)
    mill.enqueue_all([{}] * 50)
    assert Counter(partitions_of(mill, mill.claim(20))) == {"p": 10, None: 10}


def test_gated_queue_of_higher_priority_is_served_before_a_plain_one(mill: Mill) -> None:
    mill.queue("urgent", priority=10)
    mill.queue("later", priority=-10)
    plain = [mill.new(queue=q) for q in ("default", "later")]
    gated = mill.new(queue="urgent", concurrency={"limit": 1})
    assert [j.job_id for j in mill.claim(3, queues=("later", "default", "urgent"))] == [gated, *plain]


def test_lane_is_gone_once_it_is_empty_and_comes_back(mill: Mill) -> None:
    lanes = "select count(*) from tidemill.queue_lanes"
    for _ in range(3):
        mill.enqueue_all([{"concurrency": {"limit": 1, "by": "u"}, "payload": {"u": i}} for i in range(20)])
        assert len(drained(mill)) == 20
        assert mill.conn.execute(lanes.encode()).fetchone() == (0,)


def test_edited_priority_moves_a_gated_job_to_another_lane(mill: Mill) -> None:
    slow, fast = mill.new(partition_key="p"), mill.new(partition_key="p")
    mill.store.move_entry(mill.project_id, fast, priority=7, now=None)
    assert [mill.claim_one().job_id for _ in range(2)] == [fast, slow]


def test_promoted_gated_job_is_claimable_at_once(mill: Mill) -> None:
    held = mill.new(hold=True, concurrency={"limit": 1})
    later = mill.new(partition_key="p", delay_ms=3_600_000)
    assert mill.claim(5) == []
    promote(mill.store, mill.project_id, held)
    promote(mill.store, mill.project_id, later)
    assert {j.job_id for j in mill.claim(5)} == {held, later}


def test_standing_limit_of_a_job_type_holds_for_plain_jobs_too(mill: Mill) -> None:
    mill.enqueue_all([{"job_type": "heavy"}] * 3)  # before the limit: they stand in no lane
    mill.conn.execute(
        "insert into tidemill.concurrency_limits (project_id, name, job_type, max_concurrent) values (%s, 'two', 'heavy', 2)",
        [mill.project_id],
    )
    mill.enqueue_all([{"job_type": "heavy"}] * 5 + [{"job_type": "light"}] * 3)
    jobs = mill.claim(20)
    assert Counter(types(jobs)) == {"heavy": 2, "light": 3}


def test_claim_says_whether_it_left_a_queue_to_another_claim(mill: Mill) -> None:
    mill.enqueue_all([{"partition_key": "p"}] * 2)
    other = mill.another()
    with other.conn.transaction():
        other.conn.execute("select pg_advisory_xact_lock(tidemill.queue_lock(id)) from tidemill.queues")
        assert mill.claim(1) == []
        assert mill.store.met_others
    assert len(mill.claim(1)) == 1
    assert not mill.store.met_others
