"""B078: ids and sequences beyond 2^31 and 2^53."""

from datetime import UTC, datetime

import psycopg
import pytest
from psycopg import sql

from harness.mill import lease_of, opened
from tidemill.domain.jobs import LogLine, Registration
from tidemill.engine import report, worker
from tidemill.engine.prune import prune

SEQUENCES = "select schemaname, sequencename, last_value from pg_sequences where schemaname = 'tidemill' order by 2"
LINE = LogLine(datetime(2030, 1, 1, tzinfo=UTC), "info", "line")


def test_b078_no_key_column_is_a_four_byte_integer(conn: psycopg.Connection) -> None:
    rows = conn.execute(
        "select k.table_name, k.column_name, c.data_type"
        " from information_schema.key_column_usage k"
        " join information_schema.columns c using (table_schema, table_name, column_name)"
        " where k.table_schema = 'tidemill' and c.data_type in ('integer', 'smallint')"
        " and not (k.column_name = 'priority' and c.data_type = 'smallint')"
    ).fetchall()
    # Numbers that a CHECK holds in a range of their own, and that count nothing.
    bounded = {("schema_migrations", "version"), ("counter_state", "id"), ("queue_latencies", "bucket")}
    assert [row for row in rows if row[:2] not in bounded] == []


def test_b078_every_sequence_is_a_bigint_and_counts_to_its_end(conn: psycopg.Connection) -> None:
    rows = conn.execute("select sequencename, data_type::text, max_value, cycle from pg_sequences where schemaname = 'tidemill'").fetchall()
    assert rows
    assert {row[1:] for row in rows} == {("bigint", 2**63 - 1, False)}


@pytest.mark.parametrize("start", [2**31 - 5, 2**53 + 1])
def test_b078_everything_works_past_the_edges(database: str, start: int) -> None:
    with opened(database) as mill:
        for schema, name, _ in mill.conn.execute(SEQUENCES).fetchall():
            mill.conn.execute(sql.SQL("select setval({}, {})").format(sql.Literal(f"{schema}.{name}"), sql.Literal(start)))
        worker.register(mill.store, mill.project_id, mill.worker_id, Registration("w", ["default"], pid=2**40))
        first, second = mill.new(), mill.new()
        mill.conn.execute("update tidemill.job_queue_entries set fence = %s", [start])
        jobs = {job.job_id: job for job in mill.claim(2)}
        assert jobs[first].fence == start + 1
        mill.beat(*jobs.values())
        report.progress(mill.store, lease_of(jobs[first]), start, 2**63 - 1)
        assert report.logs(mill.store, lease_of(jobs[first]), [LINE] * 10) == 10
        mill.fail(jobs[first], retry_delay_ms=0)
        again = mill.claim_job(first)
        assert again.fence == start + 2
        report.logs(mill.store, lease_of(again), [LINE] * 10)
        mill.complete(again)
        assert worker.deregister(mill.store, mill.project_id, mill.worker_id, roll=mill.roll) == 1
        ids = [row[0] for row in mill.conn.execute("select id from tidemill.job_logs order by id")]
        assert ids == list(range(start + 1, start + 21))
        mill.conn.execute("update tidemill.queues set retention_completed_ms = 0")
        assert prune(mill.store)["jobs"] == 1
        assert mill.count("job_logs") == 0
        assert mill.complete(mill.claim_job(second)).status == "ok"


def test_b078_conflicts_burn_no_sequence(database: str) -> None:
    with opened(database) as mill:
        mill.put(unique={}, idempotency_key="k")
        before = mill.conn.execute(SEQUENCES).fetchall()
        for _ in range(5):
            results = mill.enqueue_all([{"unique": {}}] * 1_000)
            assert all(r.deduplicated for r in results)
            mill.put(unique={}, idempotency_key="k")
        for _ in range(50):
            worker.register(mill.store, mill.project_id, mill.another().worker_id, Registration("w", ["default"]))
        assert mill.conn.execute(SEQUENCES).fetchall() == before
        assert mill.count("jobs") == 1
