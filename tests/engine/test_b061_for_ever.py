"""B061: jobs that fail or snooze for ever keep small rows, and no counter overflows."""

import json

import pytest

from harness.mill import T0, M, Mill, S
from tidemill.domain import limits
from tidemill.domain.errors import TidemillError
from tidemill.domain.jobs import Failure
from tidemill.domain.transitions import Event
from tidemill.store.faults import translated

BIG = {"strategy": "exponential", "base_delay_ms": 1_000, "multiplier": 100.0, "max_delay_ms": limits.BACKOFF_MS, "max_attempts": 1_000}


def row_bytes(mill: Mill, job_id: str) -> int:
    row = mill.conn.execute(
        "select (select pg_column_size(j) from tidemill.jobs j where j.id = %(id)s)"
        " + (select coalesce(sum(pg_column_size(x)), 0) from tidemill.job_executions x where x.job_id = %(id)s)"
        " + (select coalesce(sum(pg_column_size(e)), 0) from tidemill.job_queue_entries e where e.job_id = %(id)s)",
        {"id": job_id},
    ).fetchone()
    assert row is not None
    return int(row[0])


def set_counters(mill: Mill, job_id: str, *, attempts: int, fence: int) -> None:
    """As if the job had been claimed that often."""
    mill.conn.execute("update tidemill.job_queue_entries set attempt_count = %s, fence = %s where job_id = %s", [attempts, fence, job_id])
    mill.conn.execute("update tidemill.jobs set attempt_count = %s, fence = %s where id = %s", [attempts, fence, job_id])


def test_b061_forty_thousand_snoozes_leave_a_hundred_attempts_and_a_small_row(mill: Mill) -> None:
    job_id = mill.new(T0, max_attempts=3)
    now = T0
    for jump, snoozes in ((0, 120), (39_000, 5), (39_900, 120)):
        if jump:
            set_counters(mill, job_id, attempts=0, fence=jump)
        for _ in range(snoozes):
            job = mill.claim_job(job_id, now=now)
            assert job.attempt == 1
            mill.ack(job, Event.SNOOZE, delay_ms=1_000, now=now)
            now += S
    job = mill.claim_job(job_id, now=now)
    assert job.fence == 40_021
    mill.complete(job, now=now)
    executions = mill.executions(job_id)
    assert len(executions) == limits.EXECUTIONS_KEPT
    assert executions[-1]["fence"] == 40_021
    assert row_bytes(mill, job_id) < 100_000


def test_b061_a_thousand_failures_with_a_megabyte_of_text_end_in_the_dead_letter(mill: Mill) -> None:
    job_id = mill.new(T0, max_attempts=1_000, retry_policy=BIG)
    text = limits.clip("é" * 500_000, limits.ERROR_BYTES)
    now = T0
    for attempts in (*range(3), *range(990, 1_000)):
        set_counters(mill, job_id, attempts=attempts, fence=attempts)
        job = mill.claim_job(job_id, now=now)
        state = mill.ack(job, Event.FAIL, failure=Failure("Boom", text, text), now=now).state
        if attempts < 999:
            assert state == "scheduled"
            (entry,) = mill.stored(job_id)["entries"]
            row = mill.conn.execute("select run_at from tidemill.jobs where id = %s", [job_id]).fetchone()
            assert row is not None
            assert 0 < (row[0] - now).total_seconds() * 1_000 <= limits.BACKOFF_MS
            assert entry["attempt_count"] == attempts + 1
            now = row[0]
    assert mill.state(job_id) == "dead_letter"
    assert mill.view(job_id)["attempt_count"] == 1_000
    assert row_bytes(mill, job_id) < 100_000


@pytest.mark.parametrize("fence", [32_767, 2**31 - 1, 2**31, 2**53])
def test_b061_fences_rise_past_every_smaller_integer(mill: Mill, fence: int) -> None:
    job_id = mill.new(T0)
    set_counters(mill, job_id, attempts=0, fence=fence)
    job = mill.claim_job(job_id, now=T0)
    assert job.fence == fence + 1
    assert mill.ack(job, Event.RELEASE, now=T0).state == "queued"
    again = mill.claim_job(job_id, now=T0 + M)
    assert again.fence == fence + 2
    assert mill.complete(again, now=T0 + M).status == "ok"


@pytest.mark.parametrize("bad", [0, -1, 1_001, 100_000, 2**31, 2**63])
def test_b061_max_attempts_has_an_upper_bound_at_the_door(mill: Mill, bad: int) -> None:
    with pytest.raises(Exception) as caught:
        mill.conn.execute("select * from tidemill.enqueue(%s, %s)", [mill.project_id, json.dumps([{"job_type": "t", "max_attempts": bad}])])
    assert getattr(caught.value, "sqlstate", None) == "TM422"
    assert "max_attempts" in str(caught.value)


BAD_POLICIES: list[object] = [
    {"max_attempts": 2.5}, {"max_attempts": 0}, {"max_attempts": 10**9}, {"strategy": "never"}, {"base_delay_ms": -1},
    {"base_delay_ms": 10**400},
    {"multiplier": 0.5}, {"max_delay_ms": "1"}, {"jitter": 1}, {"surprise": 1}, 7, [], True,
]  # fmt: skip


@pytest.mark.parametrize("inline", BAD_POLICIES)
def test_an_inline_policy_out_of_bounds_is_refused_at_the_door(mill: Mill, inline: object) -> None:
    with pytest.raises(Exception) as caught:
        mill.conn.execute(
            "select * from tidemill.enqueue(%s, %s)", [mill.project_id, json.dumps([{"job_type": "t", "retry_policy": inline}])]
        )
    assert getattr(caught.value, "sqlstate", None) == "TM422"
    assert "retry_policy" in str(caught.value)
    assert mill.count("jobs") == 0


def test_b061_the_longest_snooze_and_delay_are_stored_and_longer_ones_refused(mill: Mill) -> None:
    job_id = mill.new(T0, delay_ms=limits.DELAY_MS[1])
    assert mill.state(job_id) == "scheduled"
    job = mill.claim_job(mill.new(T0), now=T0)
    assert mill.ack(job, Event.SNOOZE, delay_ms=limits.DELAY_MS[1], now=T0).state == "scheduled"
    for bad in (limits.DELAY_MS[1] + 1, -1, 2**63 - 1, 2**70):
        with pytest.raises(Exception) as caught:
            mill.conn.execute("select * from tidemill.enqueue(%s, %s)", [mill.project_id, json.dumps([{"job_type": "t", "delay_ms": bad}])])
        assert getattr(caught.value, "sqlstate", None) == "TM422"
        assert "delay_ms" in str(caught.value)
        assert isinstance(translated(caught.value), TidemillError)
