"""B005, B049: what a lapsed lease costs, and that it never lets a job jump the queue."""

import psycopg
import pytest

from harness.mill import FIXED, T0, M, Mill, S
from tidemill.domain.transitions import Event
from tidemill.engine.operate import cancel


@pytest.mark.parametrize("max_attempts", [1, 2, 3])
def test_b005_every_lapsed_lease_costs_one_attempt_until_the_job_is_dead(mill: Mill, max_attempts: int) -> None:
    job_id = mill.new(T0, max_attempts=max_attempts, retry_policy=FIXED)
    walk, now = [], T0
    for attempt in range(1, max_attempts + 1):
        job = mill.claim_job(job_id, now=now)
        assert (job.attempt, job.fence) == (attempt, attempt)
        walk.append(mill.state(job_id))
        now += 31 * S
        reaped = mill.reap(now=now)
        assert (reaped.expired, reaped.dead) == (1, int(attempt == max_attempts))
        walk.append(mill.state(job_id))
        assert mill.misplaced() == []
        assert mill.claim(now=now) == []  # the backoff stands between
        now += M
    assert walk == ["running", "scheduled"] * (max_attempts - 1) + ["running", "dead_letter"]
    assert [(x["attempt_number"], x["status"], x["worker_id"]) for x in mill.executions(job_id)] == [
        (n, "lease_expired", mill.worker_id) for n in range(1, max_attempts + 1)
    ]
    (dead,) = mill.stored(job_id)["dead"]
    assert (dead["failure_reason"], dead["attempt_count"]) == ("lease_expired", max_attempts)
    assert mill.view(job_id)["attempt_count"] == max_attempts
    assert mill.view(job_id)["final_reason"] == "lease_expired"
    assert mill.reap(now=now).expired == 0


def test_b005_a_worker_that_succeeds_after_the_reaper_came_is_refused(mill: Mill) -> None:
    job = mill.claim_job(mill.new(T0, max_attempts=1), now=T0)
    assert mill.reap(now=T0 + 31 * S).dead == 1
    before = mill.stored(job.job_id)
    assert mill.complete(job, "late", now=T0 + 32 * S).status == "lease_lost"
    assert mill.stored(job.job_id) == before


def test_b005_an_ack_after_the_end_of_the_lease_but_before_the_reaper_counts(mill: Mill) -> None:
    job = mill.claim_job(mill.new(T0, max_attempts=1), now=T0)
    assert mill.complete(job, now=T0 + 40 * S).state == "completed"
    assert mill.reap(now=T0 + 41 * S).expired == 0


def test_b005_a_mix_of_ways_to_fail_never_passes_max_attempts(mill: Mill) -> None:
    job_id = mill.new(T0, max_attempts=3, retry_policy=FIXED)
    now = T0
    mill.claim_job(job_id, now=now)
    mill.reap(now=now + 31 * S)
    now += 2 * M
    mill.fail(mill.claim_job(job_id, now=now), now=now)
    now += 2 * M
    for event, values in ((Event.RELEASE, {}), (Event.SNOOZE, {"delay_ms": 1_000})):
        job = mill.claim_job(job_id, now=now)
        assert job.attempt == 3
        mill.ack(job, event, now=now, **values)
        now += 2 * S
    assert mill.ack(mill.claim_job(job_id, now=now), Event.CRASH, now=now).state == "dead_letter"
    assert mill.view(job_id)["attempt_count"] == 3
    assert mill.view(job_id)["crash_count"] == 2


def test_b005_an_asked_cancel_is_honoured_when_the_lease_runs_out(mill: Mill) -> None:
    job_id = mill.new(T0)
    mill.claim_job(job_id, now=T0)
    cancel(mill.store, mill.project_id, job_id, roll=mill.roll, now=T0)
    assert mill.reap(now=T0 + 31 * S).cancelled == 1
    assert mill.state(job_id) == "cancelled"


@pytest.mark.parametrize(
    "policy", ['{"max_attempts": 2.5}', '{"max_attempts": 1e400}', '{"base_delay_ms": 1e400}', '{"strategy": ["fixed"]}', "[]", "1"]
)
def test_a_retry_policy_that_would_poison_reaper_claim_and_view_cannot_be_stored(mill: Mill, policy: str) -> None:
    job_id = mill.new(T0, retry_policy=FIXED)
    with pytest.raises(psycopg.errors.CheckViolation):
        mill.conn.execute("update tidemill.jobs set retry_policy = %s::jsonb where id = %s", [policy, job_id])


def test_b049_healthy_jobs_all_run_before_the_hanging_ones_come_a_third_time(mill: Mill) -> None:
    workers = 4
    hanging = {
        job.job_id for job in mill.enqueue_all([{"job_type": "hang", "max_attempts": 10, "retry_policy": FIXED}] * (2 * workers), now=T0)
    }
    healthy = {job.job_id for job in mill.enqueue_all([{"job_type": "ok"}] * 100, now=T0 + S)}
    now, slots = T0 + 2 * S, workers
    thirds = 0
    for _ in range(200):
        done = 0
        for job in mill.claim(slots, now=now):
            if job.job_type == "ok":
                mill.complete(job, now=now)
                healthy.discard(job.job_id)
                done += 1
            elif job.attempt >= 3:
                thirds += 1
                assert not healthy, "a hanging job began its third attempt while healthy ones waited"
        held = mill.count("job_leases")
        now += 31 * S if held == workers else S
        mill.reap(now=now)
        slots = workers - mill.count("job_leases")
        if thirds:
            break
    assert not healthy
    assert thirds
    assert hanging


@pytest.mark.parametrize("event", [Event.FAIL, Event.RELEASE, Event.SNOOZE, Event.CRASH])
def test_b049_whatever_comes_back_queues_behind_what_was_waiting(mill: Mill, event: Event) -> None:
    first = mill.new(T0)
    job = mill.claim_job(first, now=T0)
    second = mill.new(T0 + S)
    values = {"delay_ms": 0} if event is Event.SNOOZE else {"retry_delay_ms": 0} if event is Event.FAIL else {}
    mill.ack(job, event, now=T0 + 2 * S, **values)
    assert [j.job_id for j in mill.claim(2, now=T0 + 2 * M)] == [second, first]
