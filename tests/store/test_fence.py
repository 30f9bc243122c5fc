"""The second fence between projects: a fenced role sees one project, even where a statement forgets to ask for it, and nobody else pays."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection, errors

from api.gateway import Gateway
from harness.roles import FENCED, OPEN, as_role, make_roles
from tidemill.store import statements
from tidemill.store.postgres import PostgresStore

NO_PROJECT = {
    "users", "organizations", "organization_members", "projects", "sessions", "login_slots", "signing_keys", "schema_migrations",
    "counter_state", "sweep_positions", "jobs",
}  # fmt: skip
"""Tables whose rows are nobody's, or an organization's; and jobs, see migration 0015."""


POLICIES = """
    select c.relname, c.relrowsecurity, array_agg(p.polname::text)
    from pg_class c left join pg_policy p on p.polrelid = c.oid
    where c.relnamespace = 'tidemill'::regnamespace and c.relkind in ('r', 'p') group by 1, 2
"""
VIEWS = "select relname, reloptions from pg_class where relnamespace = 'tidemill'::regnamespace and relkind = 'v'"


@pytest.fixture
def projects(database: str) -> Iterator[tuple[Gateway, Gateway]]:
    """Ours and theirs, each with something in most tables."""
    make_roles(database)
    both = Gateway(database), Gateway(database)
    for gateway in both:
        gateway.enqueue()
        held = gateway.enqueue(hold=True, idempotency_key="k", unique={})
        gateway.enqueue(depends_on=[held])
        worker = gateway.worker()
        first, *_ = gateway.claim(worker, limit=1)
        gateway.post(f"/v1/jobs/{first['id']}/logs", {"lease_token": first["lease_token"], "lines": [
            {"ts": "2030-01-01T00:00:00Z", "level": "info", "message": "m"}]})  # fmt: skip
        gateway.ack(first, "fail", error={"class": "E", "message": "m"}, retryable=False)
        gateway.enqueue(partition_key="p")
        gateway.claim(worker, limit=1)
        gateway.post("/v1/retry-policies", {"name": "p"})
        gateway.request("PUT", "/v1/schedules/s", {"cron": "0 9 * * *", "job": {"job_type": "t"}})
        gateway.post("/v1/schedules/s/trigger")
        gateway.post("/v1/batches", {"name": "b"})
        gateway.request("PUT", "/v1/rate-classes/r", {"limit": 1, "window_ms": 1000})
        gateway.post(f"/v1/workers/{worker}/heartbeat", {"active_job_count": 1})
    yield both
    for gateway in both:
        gateway.close()


@pytest.fixture
def fenced(database: str, projects: tuple[Gateway, Gateway]) -> Iterator[Connection]:
    with psycopg.connect(as_role(database, FENCED), autocommit=True, prepare_threshold=None) as conn:
        yield conn


def tables(conn: Connection) -> list[str]:
    rows = conn.execute("select relname from pg_class where relnamespace = 'tidemill'::regnamespace and relkind in ('r', 'p') order by 1")
    return [name for (name,) in rows.fetchall() if name not in NO_PROJECT]


def test_every_table_of_a_project_has_the_fence(conn: Connection) -> None:
    """A migration that makes a table says `select tidemill.fence('table', 'which rows are of the project')`, see migration 0015."""
    found = conn.execute(POLICIES).fetchall()
    fences = {name: (is_on, set(policies)) for name, is_on, policies in found if name not in NO_PROJECT}
    assert fences
    assert fences == {name: (True, {"open_to_grants", "project_fence"}) for name in fences}
    views = conn.execute(VIEWS).fetchall()
    assert all(options is not None and "security_invoker=true" in options for _, options in views), views


def test_a_fenced_role_counts_the_rows_of_its_project_and_no_others(projects: tuple[Gateway, Gateway], fenced: Connection) -> None:
    ours, theirs = projects
    full = []
    for table in tables(fenced):
        seen = {}
        for project in ("", ours.project_id, theirs.project_id):
            with fenced.transaction():
                PostgresStore(fenced).fence(project)
                seen[project] = fenced.execute(f"select count(*) from tidemill.{table}").fetchone()[0]
        (every,) = ours.sql(f"select count(*) from tidemill.{table}")[0]
        if table not in ("api_keys", "audit_log"):
            assert seen[""] == 0, table
        assert seen[ours.project_id] + seen[theirs.project_id] == every, table
        assert seen[ours.project_id] == seen[theirs.project_id], table
        full += [table] if every else []
    assert {"job_queue_entries", "job_leases", "job_executions", "dead_letter_queue", "queues", "workers", "audit_log"} <= set(full)
    assert len(full) > 15


def test_statements_asked_for_another_project_find_nothing(projects: tuple[Gateway, Gateway], fenced: Connection) -> None:
    """Past the first fence: the store is called with the other project's id, as a handler with a fault might."""
    ours, theirs = projects
    foreign = theirs.project_id
    (job_id,) = theirs.sql("select id::text from tidemill.jobs where phase = 'dead_letter' and project_id = %s", [foreign])[0]
    (worker_id,) = theirs.sql("select id::text from tidemill.workers where project_id = %s", [foreign])[0]
    store = PostgresStore(fenced)

    def looks() -> list[Any]:
        return [
            store.jobs_by_id(foreign, [job_id], payload=True), store.state(foreign, job_id), store.executions(job_id, 10),
            store.log_lines(job_id, after=0, levels=["info"], limit=10), store.dead_letters(job_id), store.queues(foreign, limit=10),
            store.policies(foreign, limit=10), store.workers(foreign, limit=10), store.workers(foreign, worker_id=worker_id),
            store.schedules(foreign, name=None, after=None, limit=10, now=None), store.batches(foreign, before=None, limit=10),
            store.api_keys(foreign, after=None, limit=10), store.leases_of(foreign, worker_id, 10),
            store.edit_queue(foreign, "default", {"is_paused": True}, sets_policy=False, policy_id=None),
            store.delete_policy(foreign, "p"), store.command(foreign, worker_id, "quiet"), store.deregister(foreign, worker_id),
            store.audit_log(foreign, before=None, filters=dict.fromkeys(
                ("actor_id", "actor_kind", "action", "target_kind", "target_id", "request_id", "since", "until")), scan=10),
        ]  # fmt: skip

    with fenced.transaction():
        store.fence(ours.project_id)
        assert not any(looks())
        with pytest.raises(errors.InsufficientPrivilege), fenced.transaction():
            store.create_queue(foreign, job_id, "new", {}, None)
        for write in (lambda: store.delete(foreign, [job_id]), lambda: store.retry(foreign, job_id, by=None, now=None)):
            with pytest.raises(errors.InsufficientPrivilege), fenced.transaction():
                write()
    with fenced.transaction():
        store.fence(foreign)
        found = looks()
    assert [bool(one) for one in found].count(False) <= 1, "the same calls find it all where they may"


def test_the_fence_ends_with_the_transaction(projects: tuple[Gateway, Gateway], fenced: Connection) -> None:
    with fenced.transaction():
        PostgresStore(fenced).fence(projects[0].project_id)
    assert fenced.execute("select count(*) from tidemill.job_states").fetchone() == (0,)


def test_no_plan_changes_for_owner_and_data_plane(database: str, conn: Connection) -> None:
    """Every statement of the store, planned for any values: the owner's plan and an open role's are what they are without the fence."""
    make_roles(database)
    texts = {}
    for path in sorted(Path(statements.FOLDER).rglob("*.sql")):
        name = str(path.relative_to(statements.FOLDER)).removesuffix(".sql")
        if name.startswith("doctor/") or name in ("keys/tend_signing", "scheduler/prune_audit", "webhooks/found_system"):
            continue  # read the catalogue, which the test itself changes, or call what only some functions may
        text = statements.sql(name).decode()
        names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
        texts[name] = re.sub(r"%\((\w+)\)s", lambda found, names=names: f"${names.index(found[1]) + 1}", text).replace("%%", "%")

    def plans() -> dict[str, list[Any]]:
        found = {}
        for name, text in texts.items():
            try:
                with conn.transaction():
                    rows = conn.execute(f"explain (generic_plan, costs off) {text}".encode()).fetchall()
                    found[name] = [line for (line,) in rows]
            except (errors.IndeterminateDatatype, errors.AmbiguousFunction, errors.SyntaxError, errors.DatatypeMismatch):
                continue  # has a parameter without a type: nothing that a plan would depend on
        return found

    owner = plans()
    with conn.transaction():
        conn.execute(f"set local role {OPEN}")
        opened = plans()
    for table in tables(conn):
        conn.execute(f"alter table tidemill.{table} disable row level security")
    without = plans()
    assert {"transitions/claim", "transitions/complete", "transitions/settle", "leases/heartbeat", "lists/created"} <= without.keys()
    assert len(without) > 0.8 * len(texts)
    assert owner == without
    for name, plan in without.items():
        # Bulk operations find jobs by keys, where three indexes of an empty table cost the same: a toss that means nothing.
        # (And who may see keys that sign is a rule of its own, migration 0014.)
        if not name.endswith("_many") and "signing_keys" not in texts[name]:
            assert shape(opened[name]) == shape(plan), name


def shape(plan: list[str]) -> list[str]:
    """The plan's nodes and what indexes are asked for, without the order in which conditions on one row are looked at."""
    return [line for line in plan if not re.match(r"\s*(Filter|Join Filter|Hash Cond|Merge Cond|Cache Key|One-Time Filter):", line)]
