"""The doctor finds nothing in a healthy database, and each fault in a sick one, with what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from harness.mill import Mill, opened
from tidemill.store import doctor
from tidemill.store.doctor import Finding, examine
from tidemill.store.drift import drift


def found(conn: Connection[Any], name: str, **more: Any) -> Finding:
    (finding,) = [finding for finding in examine(conn, **more) if finding.name == name]
    return finding


@pytest.fixture
def database(new_database: str) -> str:
    return new_database


@pytest.fixture
def mill(database: str) -> Any:
    with opened(database) as made:
        yield made


def test_a_fresh_database_has_nothing_that_fails(conn: Connection[Any]) -> None:
    findings = list(examine(conn))
    assert [f for f in findings if f.level == "fail"] == []
    assert {f.name for f in findings if f.level == "warn"} <= {"durability", "connections", "vacuum horizon"}  # the tests' own server
    assert {"server", "connections", "schema version", "schema drift", "zone data", "scheduler", "dead rows", "lost jobs"} <= {
        f.name for f in findings
    }
    assert all(f.todo for f in findings if f.level != "ok")


def test_a_database_without_a_schema_is_told_to_migrate(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as conn:
        assert found(conn, "schema version") == Finding(
            "fail", "schema version", found(conn, "schema version").seen, "run tidemill migrate"
        )
        assert list(examine(conn))[-1].name == "schema version"


DRIFTS = [
    ("create index by_hand on tidemill.jobs (updated_at)", "index by_hand should not be there"),
    ("drop index tidemill.jobs_by_principal", "index jobs_by_principal is missing"),
    ("alter table tidemill.jobs add column extra text", "column jobs.extra is not as it should be (it is text)"),
    ("alter table tidemill.workers drop column hostname", "column workers.hostname is missing"),
    ("alter table tidemill.workers alter column pid type integer", "column workers.pid is not as it should be (it is integer)"),
    ("alter table tidemill.jobs drop constraint jobs_final_columns", "constraint jobs_final_columns is missing"),
    ("drop trigger dead_letters_gone on tidemill.dead_letter_queue", "trigger dead_letters_gone is missing"),
    ("drop table tidemill.job_logs", "table job_logs is missing"),
    ("create table tidemill.mine (n int)", "column mine.n is not as it should be (it is integer)"),
    ("alter type tidemill.job_status add value 'lost'", "type value job_status.lost should not be there"),
    ("create or replace function tidemill.note_dead_letters() returns trigger language plpgsql as 'begin return null; end'",
     "function note_dead_letters is not as it should be"),
    ("create function tidemill.mine() returns integer language sql as 'select 17 + 4'", "function mine should not be there"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "told"), DRIFTS)
def test_what_somebody_changed_by_hand_is_told(conn: Connection[Any], change: str, told: str) -> None:
    conn.execute(change.encode())
    finding = found(conn, "schema drift")
    assert finding.level == "fail"
    assert told in finding.seen


def test_many_differences_are_told_in_short(conn: Connection[Any]) -> None:
    for n in range(12):
        conn.execute(f"create index by_hand_{n:02} on tidemill.jobs (updated_at)".encode())
    seen = found(conn, "schema drift").seen
    assert seen.endswith("and 4 more")


def test_without_the_dump_the_doctor_says_that_it_cannot_compare(conn: Connection[Any], tmp_path: Path) -> None:
    (tmp_path / "0001_create_nothing.sql").write_text("select 1", encoding="utf-8")
    assert found(conn, "schema drift", folder=tmp_path).level == "warn"
    assert found(conn, "schema version", folder=tmp_path).level == "warn"
    assert drift([], "") == []


def test_an_old_transaction_is_named_with_its_process(conn: Connection[Any], database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(database, application_name="forgotten") as other:
        other.execute("select pg_current_xact_id()")
        monkeypatch.setattr(doctor, "HELD_SECS", (0, 10**9))
        rows = conn.execute(
            "select count(*) from pg_stat_activity where application_name = 'forgotten' and backend_xid is not null"
        ).fetchone()
        assert rows == (1,)
        finding = found(conn, "vacuum horizon")
        assert finding.level == "warn"
        assert "transaction of" in finding.seen
        monkeypatch.setattr(doctor, "HELD_SECS", (0, 0))
        assert found(conn, "vacuum horizon").level == "fail"


def test_a_scheduler_that_stays_away_shows_in_what_is_overdue(mill: Mill) -> None:
    mill.conn.execute(
        "insert into tidemill.job_leases"
        " (job_id, lease_token, queue_id, attempt, fence, priority, run_at, claimed_at, lease_expires_at, lease_ms) values"
        " (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, 1, 0, now(), now() - interval '2 h', now() - interval '1 h', 1000)"
    )
    finding = found(mill.conn, "scheduler")
    assert (finding.level, finding.seen) == ("fail", "an expired lease has waited for 60 min")
    assert "tick" in finding.todo


def test_a_lost_job_is_found(mill: Mill) -> None:
    row = mill.conn.execute('select job_id::text from tidemill.enqueue(%s, \'[{"job_type": "t"}]\')', [mill.project_id]).fetchone()
    assert found(mill.conn, "lost jobs").level == "ok"
    mill.conn.execute("delete from tidemill.job_queue_entries")
    finding = found(mill.conn, "lost jobs")
    assert row is not None
    assert (finding.level, finding.seen) == ("fail", row[0])


def test_few_connections_left_are_told(conn: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "BUDGET", (0.0, 2.0))
    assert found(conn, "connections").level == "warn"
    monkeypatch.setattr(doctor, "BUDGET", (0.0, 0.0))
    assert found(conn, "connections").level == "fail"
