"""Each function's database role (migration 0014): what it may, and above all what it may not."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from harness.databases import as_url

LOGINS = ["authorizer", "enqueue", "claims", "admin", "scheduler", "worker"]
OF_ACCOUNTS = {
    "users",
    "organizations",
    "organization_members",
    "api_keys",
    "sessions",
    "signing_keys",
    "audit_log",
    "projects",
    "schema_migrations",
    "webhooks",
    "webhook_secrets",
    "webhook_deliveries",
}


@pytest.fixture
def being(database: str) -> Iterator[dict[str, psycopg.Connection]]:
    """A connection of each role."""
    made = {role: psycopg.connect(as_url(database, options=f"-crole=tidemill_{role}"), autocommit=True) for role in LOGINS}
    yield made
    for conn in made.values():
        conn.close()


def refused(conn: psycopg.Connection, statement: str) -> bool:
    try:
        conn.execute(statement.encode())
    except InsufficientPrivilege:
        return True
    return False


Being = dict[str, psycopg.Connection]


@pytest.mark.parametrize("role", [role for role in LOGINS if role != "admin"])
def test_nobody_but_admin_reads_passwords_or_refresh_tokens(being: Being, role: str) -> None:
    assert refused(being[role], "select password_hash from tidemill.users")
    if role != "authorizer":
        assert refused(being[role], "select refresh_hash from tidemill.sessions")
    assert refused(being[role], "insert into tidemill.users (email) values ('thief@example.com')")


@pytest.mark.parametrize("role", LOGINS)
def test_the_past_in_the_audit_log_is_nobodys_to_change(being: Being, role: str) -> None:
    assert refused(being[role], "delete from tidemill.audit_log")
    assert refused(being[role], "update tidemill.audit_log set action = 'nothing'")
    assert refused(being[role], "truncate tidemill.audit_log")


def test_the_authorizer_touches_no_job(being: Being) -> None:
    for table in ("jobs", "job_leases", "job_queue_entries", "queues", "workers"):
        assert refused(being["authorizer"], f"select 1 from tidemill.{table}")


def test_a_worker_sees_no_account(being: Being) -> None:
    for table in ("users", "api_keys", "sessions", "signing_keys", "organizations", "organization_members"):
        assert refused(being["worker"], f"select 1 from tidemill.{table}")


def test_only_those_who_hand_out_logins_see_the_keys_that_sign_them(being: Being, conn: psycopg.Connection) -> None:
    purposes = {row[0] for row in conn.execute("select distinct purpose from tidemill.signing_keys")}
    assert purposes >= {"cursor", "session"}
    seen = {}
    for role in ("authorizer", "admin", "enqueue"):
        seen[role] = {row[0] for row in being[role].execute("select distinct purpose from tidemill.signing_keys")}
    assert (seen["authorizer"], seen["admin"], seen["enqueue"]) == (purposes, purposes, {"cursor"})


@pytest.mark.parametrize("role", LOGINS)
def test_no_role_changes_the_schema_or_makes_roles(being: Being, role: str) -> None:
    for statement in (
        "create table tidemill.mine (x int)",
        "drop table tidemill.jobs",
        "create role thief",
        "alter table tidemill.jobs disable trigger all",
    ):
        assert refused(being[role], statement), statement


def test_every_table_is_somebodys_to_work_on(conn: psycopg.Connection) -> None:
    """A migration that makes a table says who may use it: `grant … on tidemill.new to tidemill_jobs`."""
    rows = conn.execute(
        """select c.relname, has_table_privilege('tidemill_jobs', c.oid, 'select')
           from pg_class c where c.relnamespace = 'tidemill'::regnamespace and c.relkind in ('r', 'p', 'v')"""
    ).fetchall()
    assert {name for name, may in rows if not may} <= OF_ACCOUNTS


def test_a_second_database_on_the_server_takes_the_same_roles(databases: object, database: str) -> None:
    """Roles belong to the server: the template of this run made them before this test's database was copied from it."""
    with psycopg.connect(database) as conn:
        names = {row[0] for row in conn.execute("select rolname from pg_roles where rolname like 'tidemill%'")}
        assert names >= {"tidemill_jobs", *(f"tidemill_{role}" for role in LOGINS)}
        assert not conn.execute("select 1 from pg_authid where rolname like 'tidemill%' and rolpassword is not null").fetchone()


def test_statements_of_a_request_end_before_the_request_does(conn: psycopg.Connection) -> None:
    """Settings of a role belong to one database, the run's template here, and are not copied with it."""
    rows = conn.execute(
        """select r.rolname, s.setconfig from pg_db_role_setting s join pg_roles r on r.oid = s.setrole
           where r.rolname like 'tidemill%'"""
    ).fetchall()
    with_limit = {name for name, config in rows if any(entry.startswith("statement_timeout=") for entry in config)}
    assert with_limit == {"tidemill_authorizer", "tidemill_enqueue", "tidemill_claims", "tidemill_admin"}
