"""B007, B008: neither the session's time zone nor the caller's clock decides anything; only the database's clock does."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from harness.mill import FIXED, T0, Mill, S, opened
from harness.schedules import fire, occurrences, put, show
from tidemill.domain.jobs import Registration
from tidemill.engine import worker
from tidemill.engine.promote import promote_due
from tidemill.engine.prune import prune

ZONES = ("UTC", "Asia/Kolkata", "America/New_York")


@pytest.fixture(params=ZONES)
def zoned(request: pytest.FixtureRequest, new_database: str) -> Iterator[Mill]:
    with psycopg.connect(new_database, autocommit=True) as conn:
        name = conn.info.dbname
        conn.execute(f"alter database {name} set timezone = '{request.param}'".encode())
    with opened(new_database) as mill:
        shown = mill.conn.execute("show timezone").fetchone()
        assert shown == (request.param,)
        yield mill


@pytest.mark.parametrize(
    "written", ["2030-01-01T00:01:00Z", "2030-01-01T05:31:00+05:30", "2029-12-31T19:01:00-05:00", "2030-01-01 00:01:00.000z"]
)
def test_b007_a_run_at_is_the_same_instant_in_every_session(zoned: Mill, written: str) -> None:
    job_id = zoned.new(T0, run_at=written)
    row = zoned.conn.execute("select run_at from tidemill.jobs where id = %s", [job_id]).fetchone()
    assert row is not None
    assert row[0] == datetime(2030, 1, 1, 0, 1, tzinfo=UTC)
    assert zoned.claim(now=T0 + 59 * S) == []
    job = zoned.claim_job(job_id, now=T0 + 61 * S)
    assert job.run_at == T0 + 60 * S
    assert job.lease_expires_at == T0 + 91 * S
    assert zoned.reap(now=T0 + 90 * S).expired == 0
    assert zoned.reap(now=T0 + 91 * S).expired == 1


@pytest.mark.parametrize(
    "written", ["2030-01-01T00:01:00", "2030-01-01", "tomorrow", "now", "infinity", "01/02/2030 00:00:00Z", "2030-01-01T00:01:00 EST", ""]
)
def test_b007_a_run_at_without_an_offset_is_refused_not_guessed(zoned: Mill, written: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        zoned.conn.execute("select * from tidemill.enqueue(%s, %s)", [zoned.project_id, json.dumps([{"job_type": "t", "run_at": written}])])
    assert caught.value.sqlstate == "TM422"
    assert "run_at" in str(caught.value)
    assert zoned.count("jobs") == 0


def test_b007_no_verb_depends_on_the_sessions_zone(zoned: Mill) -> None:
    now = datetime(2030, 3, 10, 6, 59, 30, tzinfo=UTC)  # thirty seconds before the clocks change in New York
    job_id = zoned.new(now, retry_policy=FIXED, retention_ms=86_400_000)
    job = zoned.claim_job(job_id, now=now)
    (kept,) = zoned.beat(job, now=now + 20 * S).leases
    assert kept.lease_expires_at == now + 50 * S
    zoned.fail(job, now=now + 20 * S)
    assert zoned.claim(now=now + 79 * S) == []
    again = zoned.claim_job(job_id, now=now + 80 * S)
    zoned.complete(again, now=now + 81 * S)
    day = timedelta(days=1)
    assert prune(zoned.store, now=now + 81 * S + day - S)["jobs"] == 0
    assert prune(zoned.store, now=now + 81 * S + day)["jobs"] == 1


def database_now(mill: Mill) -> datetime:
    row = mill.conn.execute("select clock_timestamp()").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


@pytest.fixture(params=[-600, 600], ids=["ten minutes behind", "ten minutes ahead"])
def off_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Every clock that Python code can read is off, as in a process on a machine with a wrong clock."""
    import time

    off = int(request.param)
    real = {name: getattr(time, name) for name in ("time", "time_ns")}
    monkeypatch.setattr(time, "time", lambda: real["time"]() + off)
    monkeypatch.setattr(time, "time_ns", lambda: real["time_ns"]() + off * 10**9)

    class Off(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.fromtimestamp(real["time"]() + off, tz)

    for module in ("tidemill.store.claims", "tidemill.engine.operate", "tidemill.engine.claim", "tidemill.engine.enqueue"):
        monkeypatch.setattr(f"{module}.datetime", Off, raising=False)
    return off


def test_b008_the_databases_clock_decides_whatever_the_process_believes(mill: Mill, off_clock: int) -> None:
    before = database_now(mill)
    worker.register(mill.store, mill.project_id, mill.worker_id, Registration("w", ["default"]))
    later, now = mill.new(delay_ms=60_000), mill.new()
    row = mill.conn.execute("select run_at, created_at from tidemill.jobs where id = %s", [later]).fetchone()
    assert row is not None
    assert before + 60 * S <= row[0] <= database_now(mill) + 60 * S
    assert before <= row[1] <= database_now(mill)
    (job,) = mill.claim(10)
    assert job.job_id == now
    assert abs(job.lease_expires_at - database_now(mill) - 30 * S) < S
    (kept,) = mill.beat(job).leases
    assert abs(kept.lease_expires_at - database_now(mill) - 30 * S) < S
    assert mill.reap().expired == 0
    assert promote_due(mill.store)["due"] == 0
    mill.complete(job)
    assert prune(mill.store)["jobs"] == 0
    seen = mill.conn.execute("select last_seen_at from tidemill.workers").fetchone()
    assert seen is not None
    assert before <= seen[0] <= database_now(mill)


def test_b008_delays_count_from_the_statement_not_from_the_start_of_a_long_transaction(mill: Mill) -> None:
    with mill.conn.transaction():
        mill.conn.execute("select 1")
        mill.conn.execute("select pg_sleep(0.3)")
        began = mill.conn.execute("select transaction_timestamp(), clock_timestamp()").fetchone()
        assert began is not None
        mill.conn.execute("select * from tidemill.enqueue(%s, %s)", [mill.project_id, json.dumps([{"job_type": "t", "delay_ms": 60_000}])])
        row = mill.conn.execute("select run_at, created_at from tidemill.jobs").fetchone()
        assert row is not None
        assert row[0] >= began[1] + 60 * S > began[0] + 60 * S
        assert row[1] >= began[1]
    with mill.conn.transaction():
        mill.new()
        mill.conn.execute("select pg_sleep(0.3)")
        moment = database_now(mill)
        (job,) = mill.claim(1)
        assert job.lease_expires_at >= moment + 30 * S


def test_b008_a_job_enqueued_in_the_past_is_due_now_and_waits_its_turn(mill: Mill) -> None:
    first = mill.new(T0)
    second = mill.new(T0 + S, run_at="2001-01-01T00:00:00Z")
    assert [job.job_id for job in mill.claim(2, now=T0 + 2 * S)] == [first, second]
    row = mill.conn.execute("select run_at from tidemill.jobs where id = %s", [second]).fetchone()
    assert row == (T0 + S,)


def test_b007_a_schedule_fires_at_the_same_instant_in_every_session(zoned: Mill) -> None:
    nine_in_berlin = datetime(2030, 1, 1, 8, tzinfo=UTC)
    made = put(zoned, "s", T0, cron="0 9 * * *", timezone="Europe/Berlin").schedule
    assert made.next_run_at == nine_in_berlin
    assert fire(zoned, nine_in_berlin - 100 * S)["fired"] == 0  # more than the 90 s that occurrences are made ahead
    assert fire(zoned, nine_in_berlin)["fired"] == 1
    assert occurrences(zoned, "s") == [nine_in_berlin]
    assert zoned.claim_one(now=nine_in_berlin).run_at == nine_in_berlin
    assert show(zoned, "s", nine_in_berlin).next_run_at == nine_in_berlin + timedelta(days=1)
