"""Standing limits and rate classes that come, change and go while jobs wait and run: nothing already queued or running escapes them."""

import threading
import uuid
from collections import Counter
from datetime import timedelta

import psycopg
import pytest

from harness.mill import T0, Mill, S, until, waiting_on_locks
from tidemill.domain.admission import RateClass, StandingLimit
from tidemill.domain.errors import Invalid, NotFound, Unavailable
from tidemill.domain.transitions import Event
from tidemill.engine import limits, quarantine
from tidemill.engine.explain import explain
from tidemill.engine.operate import cancel, delete, reschedule, retry
from tidemill.engine.tick import tick


def types(jobs: list) -> Counter:
    return Counter(job.job_type for job in jobs)


def limit_type(mill: Mill, job_type: str, most: int, **more: object) -> None:
    limits.put_limit(mill.store, mill.project_id, StandingLimit(f"of-{job_type}", most, job_type=job_type, **more))
    limits.relane_now(mill.store, mill.project_id)


def limit_queue(mill: Mill, queue: str, most: int, **more: object) -> None:
    limits.put_limit(mill.store, mill.project_id, StandingLimit(f"in-{queue}", most, queue=queue, **more))


def rate(mill: Mill, name: str, per_window: int, window_ms: int, burst: int, *, paused: bool | None = None, at: timedelta = 0 * S) -> None:
    limits.put_rate_class(mill.store, mill.project_id, RateClass(name, per_window, window_ms, burst, paused), now=T0 + at)


def drain(mill: Mill, *, limit: int = 10) -> list:
    done: list = []
    while jobs := mill.claim(limit):
        done += jobs
        for job in jobs:
            mill.complete(job)
    return done


def test_limit_on_a_type_holds_for_jobs_queued_before_it(mill: Mill) -> None:
    mill.enqueue_all([{"job_type": "heavy"}] * 50 + [{"job_type": "light"}] * 5)
    limit_type(mill, "heavy", 2)
    assert types(mill.claim(20)) == {"heavy": 2, "light": 5}
    assert mill.misplaced() == []


def test_jobs_queued_before_a_limit_on_their_type_all_run(mill: Mill) -> None:
    mill.enqueue_all([{"job_type": "heavy", "priority": i % 3} for i in range(50)])
    limit_type(mill, "heavy", 3)
    assert len(drain(mill)) == 50
    assert mill.misplaced() == []


def test_limit_on_a_type_counts_what_runs_already(mill: Mill) -> None:
    mill.enqueue_all([{"job_type": "heavy"}] * 10)
    running = mill.claim(3)
    limit_type(mill, "heavy", 4)
    assert len(mill.claim(10)) == 1
    mill.complete(running[0])
    assert len(mill.claim(10)) == 1


def test_limit_on_a_queue_counts_what_runs_already(mill: Mill) -> None:
    mill.enqueue_all([{}] * 10)
    running = mill.claim(3)
    limit_queue(mill, "default", 4)
    assert len(mill.claim(10)) == 1
    mill.complete(running[0])
    assert len(mill.claim(10)) == 1


def test_limit_below_what_runs_waits_until_enough_have_ended(mill: Mill) -> None:
    mill.enqueue_all([{}] * 10)
    running = mill.claim(5)
    limit_queue(mill, "default", 2)
    for job in running[:3]:
        mill.complete(job)
        assert mill.claim(5) == []
    mill.complete(running[3])
    assert len(mill.claim(5)) == 1


def test_lanes_of_one_type_share_its_limit_within_one_claim(mill: Mill) -> None:
    limit_type(mill, "heavy", 3)
    mill.enqueue_all([{"job_type": "heavy", "partition_key": f"p{i}"} for i in range(20)])
    assert len(mill.claim(20)) == 3


def test_freed_place_of_a_type_is_taken_at_once(mill: Mill) -> None:
    """Not only when the lanes' time for another look has come, with a partition for each job."""
    limit_type(mill, "heavy", 2)
    mill.enqueue_all([{"job_type": "heavy", "partition_key": f"p{i}"} for i in range(30)])
    assert len(drain(mill, limit=5)) == 30


def test_limit_on_a_type_holds_over_queues_and_beside_a_limit_of_the_job(mill: Mill) -> None:
    mill.queue("other")
    limit_type(mill, "heavy", 2)
    for queue in ("default", "other"):
        mill.enqueue_all([{"job_type": "heavy", "queue": queue, "concurrency": {"limit": 5, "key": "K"}}] * 5)
    assert len(mill.claim(5, queues=("other",))) == 2
    assert mill.claim(5) == []


def test_every_way_a_lease_ends_frees_the_place_of_its_type(mill: Mill) -> None:
    limit_type(mill, "t", 1)
    mill.enqueue_all([{}] * 20)
    for end in (Event.COMPLETE, Event.FAIL, Event.RELEASE, Event.SNOOZE, Event.ACK_CANCELLED, Event.CRASH):
        job = mill.claim_one()
        assert mill.claim(5) == []
        mill.ack(job, end, **({"delay_ms": 3_600_000} if end is Event.SNOOZE else {}))
    job = mill.claim_one()
    cancel(mill.store, mill.project_id, job.job_id, force=True, roll=mill.roll)
    job = mill.claim_one()
    mill.lapse(job.job_id)
    assert mill.claim(5) == []
    mill.reap()
    assert mill.claim_one()


def test_retried_promoted_and_released_jobs_from_before_a_limit_do_not_escape_it(mill: Mill) -> None:
    dead = mill.new(job_type="heavy", max_attempts=1)
    mill.die(dead)
    held = mill.new(job_type="heavy", hold=True)
    running = [mill.new(job_type="heavy"), mill.new(job_type="heavy")]
    leases = mill.claim(2)
    limit_type(mill, "heavy", 1)
    retry(mill.store, mill.project_id, dead)
    mill.store.promote(mill.project_id, held, now=None)
    for lease in leases:
        mill.ack(lease, Event.RELEASE)
    done: list[str] = []
    while jobs := mill.claim(5):
        assert len(jobs) == 1
        mill.complete(jobs[0])
        done.append(jobs[0].job_id)
    assert sorted(done) == sorted([dead, held, *running])
    assert mill.misplaced() == []


def test_thousands_from_before_a_limit_are_moved_in_bounded_steps_and_hide_nobody(mill: Mill) -> None:
    for _ in range(3):
        mill.enqueue_all([{"job_type": "heavy"}] * 1_000)
    mill.enqueue_all([{"job_type": "light"}] * 5)
    limits.put_limit(mill.store, mill.project_id, StandingLimit("l", 1, job_type="heavy"))
    seconds = iter([0.0, 1.0, 3.9, 4.0])
    limits.relane_now(mill.store, mill.project_id, clock=lambda: next(seconds))
    left = mill.conn.execute("select count(*) from tidemill.job_queue_entries where lane = 0").fetchone()
    assert left == (1_505,), "a bounded part in the call that set the limit"
    done = {report.name: report for report in tick(mill.store, roll=mill.roll, clock=lambda: 0.0, budget_ms=1_000)}
    assert done["relane"].counts["jobs"] == 1_500
    assert done["relane"].error is None
    assert types(mill.claim(20)) == {"heavy": 1, "light": 5}
    assert mill.misplaced() == []


def test_jobs_from_before_a_limit_are_moved_from_behind_others_that_no_worker_takes(mill: Mill) -> None:
    mill.enqueue_all([{"job_type": "nobodys"}] * 600)
    ours = mill.new(job_type="t")
    limits.put_limit(mill.store, mill.project_id, StandingLimit("l", 1, job_type="t"))
    assert mill.claim(1, job_types=["t"]) == []
    limits.relane_now(mill.store, mill.project_id)
    assert [job.job_id for job in mill.claim(1, job_types=["t"])] == [ours]


def test_removed_limit_sets_free_what_waited_for_it(mill: Mill) -> None:
    limit_type(mill, "heavy", 1)
    mill.enqueue_all([{"job_type": "heavy"}] * 5)
    assert len(mill.claim(5)) == 1
    assert mill.claim(5) == []
    limits.delete_limit(mill.store, mill.project_id, "of-heavy")
    assert len(mill.claim(10)) == 4
    with pytest.raises(NotFound):
        limits.delete_limit(mill.store, mill.project_id, "of-heavy")


def test_raised_limit_lets_more_in_at_once(mill: Mill) -> None:
    limit_type(mill, "heavy", 1)
    mill.enqueue_all([{"job_type": "heavy"}] * 5)
    assert len(mill.claim(5)) == 1
    assert mill.claim(5) == []
    limit_type(mill, "heavy", 3)
    assert len(mill.claim(5)) == 2


def test_the_smallest_of_several_limits_counts(mill: Mill) -> None:
    mill.enqueue_all([{"job_type": "heavy"}] * 9)
    for name, most in (("a", 5), ("b", 2), ("c", 7)):
        limits.put_limit(mill.store, mill.project_id, StandingLimit(name, most, job_type="heavy"))
    assert len(mill.claim(9)) == 2


def test_limit_of_none_lets_nothing_run(mill: Mill) -> None:
    limit_type(mill, "heavy", 0)
    mill.enqueue_all([{"job_type": "heavy"}] * 2 + [{}])
    assert types(mill.claim(9)) == {"t": 1}


def test_limit_on_a_queue_that_is_not_there_is_refused(mill: Mill) -> None:
    with pytest.raises(Invalid, match="queue 'nowhere' does not exist"):
        limit_queue(mill, "nowhere", 1)


def test_full_type_may_ask_its_oldest_of_lowest_priority_to_stop_one_for_each_that_waits(mill: Mill) -> None:
    limit_type(mill, "heavy", 2, on_saturated="cancel_running")
    low = mill.new(job_type="heavy", priority=-5)
    mill.new(job_type="heavy", priority=5)
    running = mill.claim(2)
    mill.new(job_type="heavy", priority=9)
    for _ in range(3):
        assert mill.claim(1) == []
        mill.conn.execute("update tidemill.queue_lanes set look_at = now() - interval '1 second' where not is_ready")
    assert mill.beat(*running).cancel == [low]


@pytest.mark.parametrize("target", [{"job_type": "heavy"}, {"queue": "default"}], ids=["type", "queue"])
def test_worker_that_a_limit_asks_to_stop_is_told_on_its_channel(mill: Mill, target: dict[str, str]) -> None:
    limits.put_limit(mill.store, mill.project_id, StandingLimit("l", 1, on_saturated="cancel_running", **target))
    mill.enqueue_all([{"job_type": "heavy"}] * 2)
    assert len(mill.claim(1)) == 1
    with psycopg.connect(mill.dsn, autocommit=True) as listener:
        listener.execute(f"listen tidemill_word_{uuid.UUID(mill.worker_id).hex}".encode())
        assert mill.another().claim(1) == []
        assert len(list(listener.notifies(timeout=20, stop_after=1))) == 1


def test_full_queue_asks_no_more_to_stop_than_wait(mill: Mill) -> None:
    limit_queue(mill, "default", 3, on_saturated="cancel_running")
    mill.enqueue_all([{}] * 3)
    running = mill.claim(3)
    mill.new(delay_ms=3_600_000)
    assert mill.claim(1) == []
    assert mill.beat(*running).cancel == [], "nothing is due"
    mill.new()
    for _ in range(5):
        assert mill.claim(1) == []
    assert len(mill.beat(*running).cancel) == 1


def test_claim_under_way_is_waited_for_and_counted(mill: Mill) -> None:
    """A claim that began before the limit and commits after it: exactly what a count alone would miss."""
    mill.enqueue_all([{}] * 10)
    slow, setter = mill.another(), mill.another()
    with slow.conn.transaction():
        assert len(slow.claim(3)) == 3
        thread = threading.Thread(target=limit_queue, args=(setter, "default", 4))
        thread.start()
        until(lambda: waiting_on_locks(mill.conn))
    thread.join(timeout=120)
    assert len(mill.claim(10)) == 1


def test_limit_gives_up_with_a_reason_where_leases_stay_locked(mill: Mill) -> None:
    mill.new()
    slow = mill.another()
    with slow.conn.transaction():
        slow.claim(1)
        with pytest.raises(Unavailable, match="held by long transactions"):
            limit_queue(mill, "default", 4)
    limit_queue(mill, "default", 4)


# Rate classes


def test_class_that_appears_holds_for_jobs_that_wait_already(mill: Mill) -> None:
    mill.enqueue_all([{"rate_class": "api"}] * 10, now=T0)
    assert len(mill.claim(1, now=T0)) == 1, "an unknown class does not block"
    rate(mill, "api", 1, 1_000, 3)
    assert len(mill.claim(10, now=T0)) == 3
    assert mill.claim(10, now=T0 + 0.9 * S) == []
    assert len(mill.claim(10, now=T0 + 2 * S)) == 2


def test_paused_class_resumes_from_zero(mill: Mill) -> None:
    rate(mill, "api", 10, 1_000, 10)
    mill.enqueue_all([{"rate_class": "api"}] * 50, now=T0)
    rate(mill, "api", 10, 1_000, 10, paused=True)
    assert mill.claim(50, now=T0 + 10 * S) == []
    rate(mill, "api", 10, 1_000, 10, paused=False, at=20 * S)
    assert mill.claim(50, now=T0 + 20 * S) == [], "an hour in the dark earns nothing"
    assert len(mill.claim(50, now=T0 + 20.5 * S)) == 5


def test_changed_rate_pays_what_was_earned_at_the_old_one(mill: Mill) -> None:
    rate(mill, "api", 1, 1_000, 100)
    mill.enqueue_all([{"rate_class": "api"}] * 300, now=T0)
    assert len(mill.claim(300, now=T0)) == 100
    rate(mill, "api", 50, 1_000, 100, at=4 * S)
    assert len(mill.claim(300, now=T0 + 4 * S)) == 4
    assert len(mill.claim(300, now=T0 + 5 * S)) == 50


def test_put_that_says_nothing_of_the_pause_leaves_it(mill: Mill) -> None:
    rate(mill, "api", 1, 1_000, 5, paused=True)
    rate(mill, "api", 2, 1_000, 5)
    mill.new(rate_class="api", now=T0)
    assert mill.claim(1, now=T0 + 60 * S) == []


def test_removed_class_sets_free_what_waited_for_it(mill: Mill) -> None:
    rate(mill, "api", 1, 3_600_000, 1, paused=True)
    mill.enqueue_all([{"rate_class": "api"}] * 5)
    assert mill.claim(5) == []
    limits.delete_rate_class(mill.store, mill.project_id, "api")
    assert len(mill.claim(5)) == 5


def test_claims_that_begin_out_of_order_do_not_earn_time_twice(mill: Mill) -> None:
    rate(mill, "api", 10, 1_000, 10)
    mill.enqueue_all([{"rate_class": "api"}] * 50, now=T0)
    assert len(mill.claim(50, now=T0 + 2 * S)) == 10
    assert mill.claim(50, now=T0 + 1 * S) == [], "it began before the other and comes after it"
    assert mill.claim(50, now=T0 + 2 * S) == [], "the second in between was earned by the first claim"
    assert len(mill.claim(50, now=T0 + 2.5 * S)) == 5


# A worker's Retry-After


def test_throttled_failure_closes_the_class_and_costs_no_attempt(mill: Mill) -> None:
    rate(mill, "api", 10, 1_000, 10)
    mill.enqueue_all([{"rate_class": "api", "max_attempts": 1}] * 3, now=T0)
    job = mill.claim(1, now=T0)[0]
    mill.new(job_type="free", now=T0)
    assert mill.fail(job, throttle_ms=60_000, now=T0).state == "scheduled"
    assert mill.view(job.job_id)["attempt_count"] == 0
    assert types(mill.claim(9, now=T0 + 59.9 * S)) == {"free": 1}
    assert mill.claim(9, now=T0 + 60 * S) == [], "it refills from zero"
    assert len(mill.claim(9, now=T0 + 60.5 * S)) == 3, "and the job itself comes back with the class"


def test_shorter_throttle_does_not_open_what_a_longer_one_has_closed(mill: Mill) -> None:
    rate(mill, "api", 10, 1_000, 10)
    mill.enqueue_all([{"rate_class": "api"}] * 5, now=T0)
    first, second = mill.claim(2, now=T0)
    mill.fail(first, throttle_ms=60_000, now=T0)
    mill.fail(second, throttle_ms=1_000, now=T0)
    assert mill.claim(9, now=T0 + 30 * S) == []


def test_throttled_failure_without_a_class_waits_and_counts(mill: Mill) -> None:
    for spec in ({}, {"rate_class": "nobody-made-it"}):
        job = mill.claim_job(mill.new(max_attempts=2, **spec))
        assert mill.fail(job, throttle_ms=60_000).state == "scheduled"
    counts = [row[0] for row in mill.conn.execute("select attempt_count from tidemill.job_states order by id")]
    assert counts == [1, 0], "a class that does not exist cannot be closed, but was meant to"


def test_lane_that_waits_for_a_closed_class_says_until_when(mill: Mill) -> None:
    rate(mill, "api", 10, 1_000, 10)
    waiting = [mill.new(rate_class="api", now=T0) for _ in range(2)][1]
    mill.fail(mill.claim(1, now=T0)[0], throttle_ms=60_000, now=T0)
    found = [o for o in explain(mill.store, mill.project_id, waiting, now=T0 + S).blocked_by if o.reason == "rate_class"]
    assert "closed by a worker's Retry-After" in found[0].detail
    assert found[0].clears_at == T0 + 60.1 * S


@pytest.mark.parametrize("way", ["delete", "cancel", "later", "lower"])
def test_lane_is_looked_at_again_when_the_dear_job_in_front_goes(mill: Mill, way: str) -> None:
    rate(mill, "api", 1, 3_600_000, 10)
    mill.enqueue_all([{"rate_class": "api", "weight": 8}], now=T0)
    assert len(mill.claim(1, now=T0)) == 1
    dear = mill.new(rate_class="api", weight=9, priority=5, now=T0)
    cheap = mill.new(rate_class="api", weight=1, priority=5, now=T0 + S)
    assert mill.claim(5, now=T0 + S) == []
    match way:
        case "delete":
            delete(mill.store, mill.project_id, dear)
        case "cancel":
            cancel(mill.store, mill.project_id, dear, roll=mill.roll, now=T0 + S)
        case "later":
            reschedule(mill.store, mill.project_id, dear, T0 + 99 * S, now=T0 + S)
        case _:
            mill.store.move_entry(mill.project_id, dear, priority=-5, now=T0 + S)
    assert [job.job_id for job in mill.claim(5, now=T0 + 2 * S)] == [cheap]


def test_lane_is_looked_at_again_when_the_quarantine_takes_the_dear_job_in_front(mill: Mill) -> None:
    rate(mill, "api", 1, 3_600_000, 10)
    mill.conn.execute("update tidemill.queues set quarantine_after = 1")
    mill.enqueue_all([{"rate_class": "api", "weight": 8}], now=T0)
    assert len(mill.claim(1, now=T0)) == 1
    dear = mill.new(rate_class="api", weight=9, payload="dear", now=T0)
    cheap = mill.new(rate_class="api", weight=1, now=T0 + S)
    assert mill.claim(5, now=T0 + S) == []
    mill.conn.execute(
        "insert into tidemill.quarantine (project_id, fingerprint, job_type, is_quarantined, quarantined_at, losses, last_loss_at)"
        " select project_id, tidemill.fingerprint(job_type, payload), job_type, true, now(), 1, now() from tidemill.jobs where id = %s",
        [dear],
    )
    while quarantine.sweep(mill.store, now=T0 + S)["more"]:
        pass
    assert mill.state(dear) == "quarantined"
    assert [job.job_id for job in mill.claim(5, now=T0 + 2 * S)] == [cheap]


def test_all_that_waited_for_a_limit_goes_at_once_when_it_is_removed(mill: Mill) -> None:
    """However many lanes wait, in whichever queue, and however little the first claim wants."""
    mill.queue("behind")
    limit_type(mill, "t", 1)
    mill.enqueue_all([{"partition_key": f"p{i}"} for i in range(130)], now=T0)
    assert len(mill.claim(500, now=T0)) == 1
    mill.enqueue_all([{"queue": "behind"}], now=T0 + S)
    assert mill.claim(500, now=T0 + S) == mill.claim(500, queues=["behind"], now=T0 + S) == []
    limits.delete_limit(mill.store, mill.project_id, "of-t")
    assert [len(mill.claim(n, queues=[queue], now=T0 + S)) for n, queue in ((1, "behind"), (1, "default"), (500, "default"))] == [1, 1, 128]


def test_the_place_that_a_type_gives_to_a_lane_whose_job_is_gone_is_for_the_next_one(mill: Mill) -> None:
    limit_type(mill, "a", 1)
    running, gone, job = (mill.new(T0, job_type="a", partition_key=p) for p in ("p", "q", "r"))
    (first,) = mill.claim(1, now=T0)
    assert first.job_id == running
    assert mill.claim(500, now=T0) == []
    cancel(mill.store, mill.project_id, gone, roll=mill.roll, now=T0)
    mill.complete(first, now=T0)
    assert [j.job_id for _ in range(3) for j in mill.claim(500, now=T0)] == [job]


def test_lanes_of_a_type_are_not_woken_where_none_was_set_aside(mill: Mill) -> None:
    """Whatever else of the round had less than it might have given is no place of the type's limit."""
    limit_type(mill, "a", 1)
    made = {mill.new(T0, job_type="a", partition_key="p"), mill.new(T0)}
    assert {job.job_id for job in mill.claim(500, now=T0)} == made
    assert mill.count("lane_news") == 0
