"""Enqueue: the SQL function and the engine take the same jobs and refuse the same faults; what comes out is what went in."""

import json
from typing import Any

import psycopg
import pytest

from harness.mill import T0, Mill, S
from tidemill.domain import limits
from tidemill.domain.errors import Invalid
from tidemill.engine.enqueue import PLAIN, rerun

FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"job_type": ""}, "job_type"),
    ({"job_type": "a b"}, "job_type"),
    ({"job_type": None}, "job_type"),
    ({"job_type": 7}, "job_type"),
    ({"queue": "-"}, "queue"),
    ({"queue": "absent"}, "queue"),
    ({"priority": 32_768}, "priority"),
    ({"priority": -32_769}, "priority"),
    ({"priority": "high"}, "priority"),
    ({"priority": 1.5}, "priority"),
    ({"schema_version": 2**31}, "schema_version"),
    ({"delay_ms": -1}, "delay_ms"),
    ({"delay_ms": limits.DELAY_MS[1] + 1}, "delay_ms"),
    ({"delay_ms": "soon"}, "delay_ms"),
    ({"delay_ms": 5, "run_at": "2031-01-01T00:00:00Z"}, "run_at"),
    ({"run_at": "2031-13-01T00:00:00Z"}, "run_at"),
    ({"hold": "maybe"}, "hold"),
    ({"idempotency_key": ""}, "idempotency_key"),
    ({"idempotency_key": "x" * 256}, "idempotency_key"),
    ({"unique": {"window": "never"}}, "unique"),
    ({"unique": {"window": "ttl"}}, "unique"),
    ({"unique": {"window": "ttl", "ttl_ms": 0}}, "unique"),
    ({"unique": {"window": "ttl", "ttl_ms": -5}}, "unique"),
    ({"unique": {"window": "ttl", "ttl_ms": 1.5}}, "unique"),
    ({"unique": {"ttl_ms": 5}}, "unique"),
    ({"unique": {"by": []}}, "unique"),
    ({"unique": {"by": "id"}}, "unique"),
    ({"unique": {"by": [1]}}, "unique"),
    ({"unique": {"other": 1}}, "unique"),
    ({"unique": True}, "unique"),
    ({"concurrency": {"limit": 0}}, "concurrency"),
    ({"concurrency": {"key": "a"}}, "concurrency"),
    ({"concurrency": {"limit": 1, "key": "a", "by": "b"}}, "concurrency"),
    ({"concurrency": {"limit": 1, "key": "x" * 256}}, "concurrency"),
    ({"concurrency": {"limit": "1"}}, "concurrency"),
    ({"retry_policy": "absent"}, "retry_policy"),
    ({"max_attempts": 0}, "max_attempts"),
    ({"max_attempts": 1_001}, "max_attempts"),
    ({"timeout_ms": 0}, "timeout_ms"),
    ({"timeout_ms": limits.TIMEOUT_MS[1] + 1}, "timeout_ms"),
    ({"partition_key": "x" * 256}, "partition_key"),
    ({"weight": 0}, "weight"),
    ({"rate_class": "?"}, "rate_class"),
    ({"sticky_worker": "x" * 201}, "sticky_worker"),
    ({"tags": ["x" * 65]}, "tags"),
    ({"tags": [""]}, "tags"),
    ({"tags": ["x"] * 21}, "tags"),
    ({"tags": [1]}, "tags"),
    ({"tags": "x"}, "tags"),
    ({"headers": {str(i): "" for i in range(33)}}, "headers"),
    ({"headers": {"a": "x" * 8_192}}, "headers"),
    ({"headers": {"a": 1}}, "headers"),
    ({"traceparent": "x" * 256}, "traceparent"),
    ({"tracestate": "x" * 513}, "tracestate"),
    ({"retention_ms": -1}, "retention_ms"),
    ({"payload": "x" * (limits.PAYLOAD_BYTES - 1)}, "payload"),
    ({"colour": "red"}, "colour"),
]  # fmt: skip


def by_sql(mill: Mill, jobs: Any) -> list[Any]:
    return mill.conn.execute("select * from tidemill.enqueue(%s, %s::jsonb)", [mill.project_id, json.dumps(jobs)]).fetchall()


@pytest.mark.parametrize(("fault", "field"), FAULTS, ids=lambda x: str(x)[:60])
def test_the_sql_door_names_the_job_and_the_field_and_stores_nothing(shared_mill: Mill, fault: dict[str, Any], field: str) -> None:
    good = {"job_type": "t", "idempotency_key": "good", "unique": {}}
    with pytest.raises(psycopg.Error) as caught:
        by_sql(shared_mill, [good, {"job_type": "t", **fault}, good])
    assert caught.value.sqlstate == "TM422", caught.value
    assert str(caught.value).startswith(f"jobs[1].{field}: "), caught.value
    assert "DETAIL" not in str(caught.value)
    assert [shared_mill.count(table) for table in ("jobs", "job_queue_entries", "unique_holds")] == [0, 0, 0]


@pytest.mark.parametrize("jobs", [None, 1, "x", {}, {"job_type": "t"}])
def test_what_is_no_list_is_refused(shared_mill: Mill, jobs: Any) -> None:
    with pytest.raises(psycopg.Error) as caught:
        by_sql(shared_mill, jobs)
    assert caught.value.sqlstate == "TM422"


@pytest.mark.parametrize("item", [None, 1, "x", []])
def test_an_item_that_is_no_object_is_refused(shared_mill: Mill, item: Any) -> None:
    with pytest.raises(psycopg.Error) as caught:
        by_sql(shared_mill, [{"job_type": "t"}, item])
    assert caught.value.sqlstate == "TM422"
    assert "jobs[1]" in str(caught.value)


def test_a_thousand_jobs_go_in_and_one_more_does_not(mill: Mill) -> None:
    assert len(by_sql(mill, [{"job_type": "t"}] * 1_000)) == 1_000
    with pytest.raises(psycopg.Error, match="1001 items; the limit for one call is 1000"):
        by_sql(mill, [{"job_type": "t"}] * 1_001)
    assert by_sql(mill, []) == []


def test_everything_a_job_may_carry_is_stored_as_given(mill: Mill) -> None:
    mill.policy("mine", max_attempts=7)
    full: dict[str, Any] = {
        "job_type": "a.b:c/d-e_f", "queue": "default", "payload": {"user_id": "u1", "request_id": "r1", "n": 1.0}, "schema_version": -3,
        "priority": -32_768, "run_at": "2031-01-01T00:00:00+05:30", "idempotency_key": "é" * 255,
        "unique": {"by": ["n", "absent"], "window": "ttl", "ttl_ms": 1},
        "concurrency": {"limit": 2, "by": "user_id"}, "retry_policy": "mine",
        "max_attempts": 1_000, "timeout_ms": 1, "partition_key": "p", "weight": 9,
        "rate_class": "r", "sticky_worker": "w", "tags": ["x" * 64] * 20, "headers": {"a": "b"},
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "t=1", "retention_ms": 0, "hold": True,
    }  # fmt: skip
    ((_, job_id, state, deduplicated),) = by_sql(mill, [full])
    assert (state, deduplicated) == ("pending", False)
    (row,) = mill.stored(str(job_id))["jobs"]
    assert row["payload"] == full["payload"]
    assert (row["principal_id"], row["correlation_id"], row["concurrency_key"]) == ("u1", "r1", "u1")
    assert row["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert mill.view(str(job_id))["max_attempts"] == 1_000
    assert by_sql(mill, [full])[0][1:] == (job_id, "pending", True)


@pytest.mark.parametrize(
    "payload", [None, True, 0, -0.5, 1.0, "", "x", [], {}, [None], {"a": None}, 10**100, 1e23, 5e-324, 1.7976931348623157e308]
)
def test_any_json_value_is_a_payload_and_comes_back_as_it_was(mill: Mill, payload: Any) -> None:
    job_id = mill.new(T0, payload=payload, unique={})
    job = mill.claim_job(job_id, now=T0)
    back = json.loads(job.payload)
    assert (type(back), back) == (type(payload), payload)
    assert mill.put(T0, payload=payload, unique={}) == (0, job_id, "running", True, None, None, None)


def test_a_job_without_a_payload_carries_an_empty_object(mill: Mill) -> None:
    job_id = mill.new(T0, unique={})
    assert mill.put(T0, payload={}, unique={}).job_id == job_id
    assert mill.put(T0 + S, payload=None, unique={}).job_id != job_id
    assert mill.claim_job(job_id, now=T0 + S).payload == "{}"


@pytest.mark.parametrize("payload", [None, {"a": 1e23, "b": [1, 1.0, None]}, 10**40])
def test_a_rerun_carries_what_the_first_carried_but_its_keys(mill: Mill, payload: Any) -> None:
    first = mill.new(T0, payload=payload, unique={}, idempotency_key="k", tags=["a"], headers={"h": "v"}, priority=3, max_attempts=2)
    again = rerun(mill.store, mill.project_id, first, now=T0)
    assert again.deduplicated is False
    assert again.job_id is not None
    one, two = (mill.stored(job_id)["jobs"][0] for job_id in (first, again.job_id))
    for column in ("payload", "tags", "headers", "priority", "max_attempts_override", "job_type", "queue_id"):
        assert one[column] == two[column], column
    assert (two["unique_key"], two["idempotency_key"]) == (None, None)


FIELDS_OF_A_PLAIN_JOB: dict[str, Any] = {
    "payload": {"user_id": "u1", "request_id": "r1"}, "schema_version": 2, "priority": -7,
    "run_at": "2031-01-01T00:00:00+05:30", "delay_ms": None,
    "max_attempts": 9, "timeout_ms": 5_000, "headers": {"a": "b"}, "tracestate": "t=1",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}  # fmt: skip
MAY_DIFFER = ("id", "job_id", "created_at", "updated_at")


def test_what_is_plain_is_the_same_here_and_there(mill: Mill) -> None:
    row = mill.conn.execute("select tidemill.plain_fields()").fetchone()
    assert row is not None
    assert set(row[0]) == PLAIN


@pytest.mark.parametrize("other", [{}, {"tags": ["a"]}], ids=["among plain ones", "among others"])
@pytest.mark.parametrize("more", [{}, {"tags": ["a"]}], ids=["plain", "by the long way"])
@pytest.mark.parametrize(
    "job",
    [{}, FIELDS_OF_A_PLAIN_JOB, {"delay_ms": 60_000, "payload": None}, {"priority": 3, "run_at": "1999-01-01T00:00:00Z"}],
    ids=["nothing", "everything", "delayed", "overdue"],
)
def test_one_job_is_stored_as_one_of_many_is(mill: Mill, job: dict[str, Any], more: dict[str, Any], other: dict[str, Any]) -> None:
    alone, (first, _) = mill.put(T0, **job, **more), mill.enqueue_all([{**job, **more}, {"job_type": "other", **other}], now=T0)
    assert alone[2:] == first[2:]
    assert alone.job_id is not None
    assert first.job_id is not None
    one, many = mill.stored(alone.job_id), mill.stored(first.job_id)
    assert one.keys() == many.keys()
    for table in one:
        left, right = ([{k: v for k, v in row.items() if k not in MAY_DIFFER} for row in rows[table] or []] for rows in (one, many))
        assert left == right, table
    assert mill.misplaced() == []


@pytest.mark.parametrize(
    "rule",
    [
        "update tidemill.queues set max_unfinished_jobs = 0",
        "update tidemill.queues set is_closed = true",
        "delete from tidemill.queues",
    ],
)
def test_what_refuses_one_of_many_refuses_one_alone(mill: Mill, rule: str) -> None:
    mill.conn.execute(rule.encode())
    alone = mill.store.enqueue_one(mill.project_id, '{"job_type": "t"}', atomic=True, now=T0)
    assert [alone] == mill.store.enqueue(mill.project_id, '[{"job_type": "t"}]', atomic=True, plain=True, now=T0)
    assert alone.code is not None
    assert mill.count("jobs") == 0


def test_an_atomic_call_lists_every_refused_job_and_a_loose_one_stores_the_rest(mill: Mill) -> None:
    jobs = [{}, {"queue": "nope"}, {"unique": {}}, {"retry_policy": "nope"}, {"unique": {}}]
    with pytest.raises(Invalid) as caught:
        mill.enqueue_all(jobs)
    assert [fault.loc for fault in caught.value.faults] == [("jobs", 1, "queue"), ("jobs", 3, "retry_policy")]
    assert [mill.count(table) for table in ("jobs", "unique_holds")] == [0, 0]
    results = mill.enqueue_all(jobs, atomic=False)
    assert [(r.position, r.code, r.deduplicated) for r in results] == [
        (0, None, False), (1, "validation_error", False), (2, None, False), (3, "validation_error", False), (4, None, True),
    ]  # fmt: skip
    assert results[4].job_id == results[2].job_id
    assert mill.misplaced() == []
