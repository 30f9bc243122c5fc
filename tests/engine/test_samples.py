"""Samples: how much stands in each queue, once a minute; and how long all these numbers are kept."""

from datetime import datetime, timedelta

from harness.mill import T0, H, M, Mill, S
from tidemill.engine.fold import sample
from tidemill.engine.tick import tick

DAY = timedelta(days=1)


def samples(mill: Mill) -> list[tuple[object, ...]]:
    return mill.conn.execute(
        "select q.name::text, s.queued, s.scheduled, s.running, s.pending, s.dead, s.oldest_queued_age_ms"
        " from tidemill.queue_samples s join tidemill.queues q on q.id = s.queue_id order by s.at, q.name"
    ).fetchall()


def test_sample_tells_what_stands_in_a_queue(mill: Mill) -> None:
    mill.enqueue_all([{}] * 5 + [{"partition_key": "p"}] * 2, now=T0)
    mill.enqueue_all([{"delay_ms": 3_600_000}, {"delay_ms": 3_600_000, "partition_key": "p"}, {"hold": True}], now=T0)
    dead, running = mill.claim(1, now=T0 + S)[0], mill.claim(1, now=T0 + S)[0]
    mill.fail(dead, retryable=False, now=T0 + 2 * S)
    assert running.job_id
    assert sample(mill.store, now=T0 + 5 * S) == {"samples": 1, "more": 0}
    assert samples(mill) == [("default", 5, 2, 1, 1, 1, 5_000)]


def test_empty_queue_has_no_oldest_job(mill: Mill) -> None:
    sample(mill.store, now=T0)
    assert samples(mill) == [("default", 0, 0, 0, 0, 0, None)]


def test_queue_is_sampled_once_a_minute_however_many_passes_there_are(mill: Mill) -> None:
    for seconds in (0, 1, 30, 59):
        sample(mill.store, now=T0 + seconds * S)
    assert len(samples(mill)) == 1
    sample(mill.store, now=T0 + M)
    assert len(samples(mill)) == 2


def test_many_queues_are_sampled_a_few_at_a_time(mill: Mill) -> None:
    for number in range(7):
        mill.queue(f"q{number}")
    counts = [sample(mill.store, queues=3, now=T0) for _ in range(3)]
    assert counts == [{"samples": 3, "more": 1}, {"samples": 3, "more": 1}, {"samples": 2, "more": 0}]


def test_count_of_a_flood_stops_at_its_bound(mill: Mill) -> None:
    mill.enqueue_all([{}] * 30, now=T0)
    assert mill.store.sample_queues(10, 20, now=T0 + S) == 1
    assert samples(mill)[0][1] == 20


def test_memory_grows_with_what_the_jobs_carry(mill: Mill) -> None:
    mill.enqueue_all([{"payload": {"n": i}} for i in range(100)], now=T0)
    sample(mill.store, now=T0 + S)
    row = mill.conn.execute("select memory_mb * 1e6 / 100 from tidemill.queue_samples").fetchone()
    assert row is not None
    assert 300 <= row[0] <= 1_000


def test_pass_folds_samples_and_prunes(mill: Mill) -> None:
    began = datetime.now(T0.tzinfo) - 100 * DAY
    mill.enqueue_all([{}] * 3, now=began)
    names = run(mill, began + 10 * S)
    assert {"fold", "sample", "prune"} <= names.keys()
    assert names["fold"] == {"arrived": 3, "completed": 0, "failed": 0, "dead": 0, "late": 0}
    assert names["sample"] == {"samples": 1}
    assert [mill.count(table) for table in ("queue_counters", "queue_hours", "queue_samples")] == [1, 1, 1]
    run(mill, began + 3 * DAY)
    assert [mill.count(table) for table in ("queue_counters", "queue_hours", "queue_samples")] == [0, 1, 1]
    run(mill, began + 91 * DAY + H)
    assert mill.count("queue_hours") == 0


def run(mill: Mill, now: datetime) -> dict[str, dict[str, int]]:
    clock = iter(range(1_000_000))
    phases = tick(mill.store, roll=mill.roll, clock=lambda: next(clock) / 1_000, now=now)
    assert [phase.name for phase in phases if phase.error] == []
    return {phase.name: dict(phase.counts) for phase in phases}
