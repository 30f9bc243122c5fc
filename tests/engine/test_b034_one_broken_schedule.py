"""B034: a schedule that cannot fire stops no other one, says why, and rests."""

import time
from dataclasses import replace

import pytest

from harness.mill import M, Mill, S
from harness.schedules import at, fire, jobs, occurrences, put, put_like, show, told
from tidemill.engine import fire as module
from tidemill.engine import schedules
from tidemill.engine.tick import tick

NOW = at("2030-01-01 09:59:30")
TEN = at("2030-01-01 10:00")
BREAKS = {
    "cron": ("cron_expression = '61 * * * *'", "minute"),
    "cron that is none": ("cron_expression = 'nonsense'", "5"),
    "zone": ("timezone = 'Mars/Olympus'", "is not a time zone"),
    "payload": ("payload_template = '[1]'", "must be an object"),
    "queue": ("queue_id = gen_random_uuid()", "queue of this schedule is gone"),
    "policy": ("retry_policy_id = gen_random_uuid()", "retry policy of this schedule is gone"),
    "priority": ("job = jsonb_build_object('priority', 99999)", "job.priority: must be a whole number from -32768 to 32767"),
    "priority that is no number": ("job = jsonb_build_object('priority', 'high')", "job.priority"),
    "tags": ("job = jsonb_build_object('tags', 5)", "job.tags"),
    "limit": ("job = jsonb_build_object('concurrency', jsonb_build_object('limit', 'x'))", "job.concurrency"),
    "job that is no object": ("job = '[]', payload_template = '5'", "must be an object"),
    "type": ("job = jsonb_build_object('retention_ms', -1)", "job.retention_ms"),
}


def fifty(mill: Mill) -> None:
    put(mill, "s00", NOW, cron="0 10 * * *")
    put_like(mill, "s00", [f"s{n:02}" for n in range(1, 50)])


@pytest.mark.parametrize("broken", BREAKS)
def test_b034_forty_nine_fire_and_one_says_why_it_does_not(mill: Mill, broken: str) -> None:
    fifty(mill)
    change, why = BREAKS[broken]
    mill.conn.execute(f"update tidemill.scheduled_jobs set {change} where name = 's25'".encode())
    counts = fire(mill, NOW)
    assert (counts["fired"], counts["broken"]) == (49, 1)
    assert mill.count("jobs") == 49
    found = show(mill, "s25", NOW)
    assert found.error is not None
    assert why in found.error
    assert told(mill, "s25")[-1][0] == "error"
    assert found.next_run_at is None or found.next_run_at >= NOW + 5 * M
    assert fire(mill, NOW + S) == {"schedules": 0, "fired": 0, "skipped": 0, "broken": 0, "recomputed": 0}, "and it rests"


def test_b034_the_other_phases_run_and_report_by_themselves(mill: Mill) -> None:
    fifty(mill)
    mill.conn.execute("update tidemill.scheduled_jobs set timezone = 'Mars/Olympus' where name = 's25'")
    job_id = mill.new(NOW, max_attempts=1)
    mill.claim_job(job_id, now=NOW)
    phases = {p.name: p for p in tick(mill.store, roll=mill.roll, clock=time.monotonic, now=NOW + 5 * M)}
    assert all(phase.error is None for phase in phases.values())
    assert phases["fire"].counts["broken"] == 1
    assert phases["fire"].counts["fired"] == 49
    assert phases["reap"].counts["expired"] == 1


def test_b034_a_schedule_whose_queue_is_closed_tells_it_and_fires_once_it_is_open(mill: Mill) -> None:
    mill.queue("side")
    put(mill, "s", NOW, job={"job_type": "t", "queue": "side"})
    mill.conn.execute("update tidemill.queues set is_closed = true where name = 'side'")
    fire(mill, NOW)
    assert "closed" in (show(mill, "s", NOW).error or "")
    mill.conn.execute("update tidemill.queues set is_closed = false where name = 'side'")
    fire(mill, NOW + 6 * M)
    assert show(mill, "s", NOW + 6 * M).error is None
    assert occurrences(mill, "s")


def test_b034_a_broken_timing_fires_again_once_it_is_edited(mill: Mill) -> None:
    put(mill, "s", NOW)
    mill.conn.execute("update tidemill.scheduled_jobs set cron_expression = 'nonsense'")
    fire(mill, NOW)
    assert show(mill, "s", NOW).next_run_at is None
    schedules.edit(mill.store, mill.project_id, "s", lambda stored: replace(stored, cron="* * * * *"), now=NOW)
    found = show(mill, "s", NOW)
    assert (found.error, found.next_run_at) == (None, TEN)
    fire(mill, NOW)
    assert occurrences(mill, "s")


def test_b034_a_fault_of_ours_in_one_schedule_stops_no_other(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.job_of

    def job_of(schedule, nominal_at, **how):
        if schedule.name == "s25":
            raise RuntimeError("a bug")
        return real(schedule, nominal_at, **how)

    fifty(mill)
    monkeypatch.setattr(module, "job_of", job_of)
    counts = fire(mill, NOW)
    assert (counts["fired"], counts["broken"]) == (49, 1)
    assert show(mill, "s25", NOW).error == "its jobs could not be made: RuntimeError"


def test_b034_more_than_a_transaction_of_schedules_behind_a_broken_one_still_fire(mill: Mill) -> None:
    put(mill, "s000", NOW, cron="0 10 * * *")
    put_like(mill, "s000", [f"s{n:03}" for n in range(1, 600)])
    mill.conn.execute(
        "update tidemill.scheduled_jobs set job = jsonb_build_object('priority', 99999) where name in ('s000', 's300', 's599')"
    )
    counts = fire(mill, NOW)
    assert (counts["fired"], counts["broken"], counts["schedules"]) == (597, 3, 600)
    assert len(jobs(mill, "s100")) == 1
