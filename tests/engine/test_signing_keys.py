"""Keys that sign: the scheduler makes the next one in time, takes the last one back for a while, and then removes it."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from harness.databases import as_url
from harness.mill import Mill
from tidemill.domain.sessions import AUDIT_KEPT_DAYS, OVERLAP_SECS, ROTATE_SECS
from tidemill.engine.prune import prune
from tidemill.engine.signing import tend
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore
from tidemill.store.signing import rotate_signing_key

KEPT = timedelta(seconds=ROTATE_SECS)
TAKEN_BACK = timedelta(seconds=OVERLAP_SECS)
ONE = timedelta(seconds=1)


@pytest.fixture
def born(mill: Mill):
    """When the first keys were made."""
    return mill.conn.execute("select max(created_at) from tidemill.signing_keys").fetchone()[0]


def kids(mill: Mill, *, signs: bool) -> list[str]:
    question = "select kid::text from tidemill.signing_keys where (retired_at is null) = %s and purpose = 'session' order by created_at"
    return [row[0] for row in mill.conn.execute(question, [signs])]


def test_a_young_key_goes_on_signing(mill: Mill, born) -> None:
    before = kids(mill, signs=True)
    assert tend(mill.store, now=born + KEPT - ONE) == {"made": 0, "removed": 0}
    assert kids(mill, signs=True) == before


def test_an_old_key_is_followed_by_another_and_removed_when_its_last_token_is_over(mill: Mill, born) -> None:
    (first,) = kids(mill, signs=True)
    at = born + KEPT
    assert tend(mill.store, now=at) == {"made": 2, "removed": 0}
    (second,) = kids(mill, signs=True)
    assert (kids(mill, signs=False), second != first) == ([first], True)
    assert tend(mill.store, now=at + TAKEN_BACK - ONE) == {"made": 0, "removed": 0}
    assert tend(mill.store, now=at + TAKEN_BACK) == {"made": 0, "removed": 2}
    assert (kids(mill, signs=True), kids(mill, signs=False)) == ([second], [])
    notes = mill.conn.execute(
        "select target_id, after ->> 'purpose' from tidemill.audit_log where action = 'signing_keys.rotate'"
    ).fetchall()
    assert (second, "session") in notes
    assert len(notes) == 2
    assert mill.conn.execute("select min(length(secret)) >= 48 and count(distinct secret) = 2 from tidemill.signing_keys").fetchone() == (
        True,
    )


def test_ten_schedulers_at_once_make_one_key(mill: Mill, born) -> None:
    def passed(_: int) -> int:
        with connect(mill.dsn) as conn:
            return tend(PostgresStore(conn), now=born + KEPT)["made"]

    with ThreadPoolExecutor(10) as pool:
        made = list(pool.map(passed, range(20)))
    assert (sum(made), len(kids(mill, signs=True))) == (2, 1)


def test_a_key_made_by_hand_puts_the_next_change_off(mill: Mill, born) -> None:
    made = rotate_signing_key(mill.conn)
    assert kids(mill, signs=True) == [made.kid]
    assert tend(mill.store, now=born + KEPT)["made"] == 1, "the cursors' key; the sessions' is young"
    assert kids(mill, signs=True) == [made.kid]


def test_a_leaked_key_is_not_even_kept(mill: Mill, born) -> None:
    made = rotate_signing_key(mill.conn, has_leaked=True)
    assert [key.kid for key in mill.store.signing_keys("session")] == [made.kid]
    assert tend(mill.store)["removed"] == 1


def test_the_scheduler_changes_keys_that_it_cannot_read(mill: Mill, born) -> None:
    with connect(as_url(mill.dsn, options="-crole=tidemill_scheduler")) as conn:
        assert tend(PostgresStore(conn), now=born + KEPT)["made"] == 2
        with pytest.raises(InsufficientPrivilege):
            conn.execute("select secret from tidemill.signing_keys")


@pytest.mark.parametrize("role", ["authorizer", "enqueue", "claims", "worker"])
def test_nobody_else_changes_keys_or_shortens_the_audit_log(mill: Mill, role: str) -> None:
    with connect(as_url(mill.dsn, options=f"-crole=tidemill_{role}")) as conn:
        for call in ("tidemill.tend_signing_keys(7776000, 3600)", "tidemill.prune_audit_log(400, 10)"):
            with pytest.raises(InsufficientPrivilege):
                conn.execute(f"select {call}".encode())


def noted(mill: Mill, days: int) -> None:
    mill.conn.execute(
        "insert into tidemill.audit_log (actor_kind, action, target_kind, target_id, at)"
        " values ('user', 'auth.login', 'session', %s, now() - make_interval(days => %s))",
        [str(days), days],
    )


def test_the_audit_log_ends_after_its_time_and_never_within_a_year(mill: Mill) -> None:
    for days in (AUDIT_KEPT_DAYS + 2, AUDIT_KEPT_DAYS + 1, AUDIT_KEPT_DAYS - 1, 366, 364, 0):
        noted(mill, days)
    with connect(as_url(mill.dsn, options="-crole=tidemill_scheduler")) as conn:
        assert prune(PostgresStore(conn))["audit_notes"] == 2
        assert conn.execute("select tidemill.prune_audit_log(1, 1)").fetchone() == (1,), "a batch is bounded"
        assert conn.execute("select tidemill.prune_audit_log(1, 100)").fetchone() == (1,)
        assert conn.execute("select tidemill.prune_audit_log(0, 100)").fetchone() == (0,), "not what is younger than a year"
    left = mill.conn.execute("select target_id from tidemill.audit_log where action = 'auth.login' order by id").fetchall()
    assert left == [("364",), ("0",)]


def test_looking_for_old_notes_costs_one_row(mill: Mill) -> None:
    mill.conn.execute(
        "insert into tidemill.audit_log (actor_kind, action, target_kind, target_id)"
        " select 'user', 'x', 'job', n::text from generate_series(1, 5000) n"
    )
    mill.conn.execute("analyze tidemill.audit_log")
    before = mill.conn.execute("select pg_stat_get_xact_tuples_fetched('tidemill.audit_log'::regclass)").fetchone()
    with mill.conn.transaction():
        mill.conn.execute("select tidemill.prune_audit_log(400, 5000)")
        after = mill.conn.execute("select pg_stat_get_xact_tuples_fetched('tidemill.audit_log'::regclass)").fetchone()
    assert before is not None
    assert after is not None
    assert after[0] - before[0] <= 10


def test_a_pass_that_finds_the_keys_held_does_not_wait(mill: Mill, born) -> None:
    with psycopg.connect(mill.dsn) as holder:
        holder.execute("select pg_advisory_xact_lock(hashtextextended('tidemill.signing_keys', 1789))")
        assert tend(mill.store, now=born + KEPT)["made"] == 0, "held: the pass goes on without waiting"
        holder.rollback()
    assert tend(mill.store, now=born + KEPT)["made"] == 2
