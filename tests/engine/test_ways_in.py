"""Every way in does the same with a job: alone, among plain ones, among others, by the engine's statements and by the SQL door."""

import json
import random
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest

from harness.databases import Databases
from harness.mill import T0, Mill, opened, scaled
from tidemill.store.sleepers import Sleepers

TRACE: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
VALUES: Final[dict[str, list[Any]]] = {
    "job_type": ["limited", "", "x" * 200, "x" * 201, None, 7, True, {}, ["t"]],
    "queue": ["gated", "paused", "closed", "full", "roomy", "absent", "", None, 7, {"a": 1}],
    "payload": [
        None, 1.0, 10**40, "", ["principal_id"], {"user_id": 7, "request_id": None}, {"principal": {"a": [1]}},
        {"principal_id": "x" * 300, "correlation_id": "é" * 300}, {"principal_id": None, "user_id": "u"}, "x" * 262_200,
    ],
    "schema_version": [-3, 2**31 - 1, 2**31, 1.5, "2", None, True, [], 1e3],
    "priority": [-5, 32_767, -32_768, 32_768, 1e3, 1e9, "5", " 5 ", None, {}],
    "run_at": [
        "2031-01-01T00:00:00+05:30", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "0000-01-01T00:00:00Z",
        "2031-01-01T00:00:00+99:00", "2031-01-01T00:00:00+15:59", "2031-02-30T00:00:00Z", "2031-01-01T00:00:00", "infinity", "", None, 5,
    ],
    "delay_ms": [0, 60_000, 315_360_000_000, 315_360_000_001, -1, 1e3, 1.5, 1e300, "5", "-5", "400000000000", None, True, []],
    "max_attempts": [1_000, 0, 1_001, "3", None, True, 2**40],
    "timeout_ms": [1, 43_200_001, -1, "5", None, 2**70],
    "headers": [None, {}, {"a": "b"}, {"a": 1}, [], "x"],
    "traceparent": [TRACE, "x", "", "x" * 256, None, 5, {"a": 1}, False],
    "tracestate": ["t=1", "", "x" * 513, None, 5, ["x"]],
}  # fmt: skip
CASES: Final = [{name: value} for name, values in VALUES.items() for value in values]
PLAIN, OTHER = {"job_type": "other"}, {"job_type": "other", "tags": ["a"]}

ONE: Final = "select tidemill.admit_one(%(p)s, %(jobs)s::jsonb, true, %(now)s)"
MANY: Final = "select * from tidemill.admit_many(%(p)s, %(jobs)s::jsonb, true, true, %(now)s)"
ANY: Final = "select * from tidemill.admit(%(p)s, %(jobs)s::jsonb, true, %(now)s)"
DOOR: Final = "select *, null, null, null from tidemill.enqueue(%(p)s, %(jobs)s::jsonb)"
CHANCE: Final = ["id", "job_id", "created_at", "updated_at"]
STORED: Final = """
select (select to_jsonb(j) - %(chance)s::text[] from tidemill.jobs j where j.id = %(id)s),
       (select jsonb_agg(to_jsonb(e) - %(chance)s::text[]) from tidemill.job_queue_entries e where e.job_id = %(id)s),
       (select jsonb_agg(to_jsonb(n) - %(chance)s::text[] - '{job_ids,run_ats}'::text[]) from tidemill.lane_news n
        where %(id)s in (n.job_id, n.job_ids[1])),
       exists (select 1 from tidemill.queue_levels l join tidemill.jobs j using (queue_id, priority) where j.id = %(id)s)
"""


@pytest.fixture(scope="module")
def mill(databases: Databases) -> Iterator[Mill]:
    with opened(databases.clone()) as made:
        made.queue("gated", max_concurrency=2)
        made.queue("paused", is_paused=True)
        made.queue("closed", is_closed=True)
        made.queue("full", max_unfinished_jobs=0)
        made.queue("roomy", max_unfinished_jobs=50)
        made.conn.execute(
            "insert into tidemill.concurrency_limits (project_id, name, job_type, max_concurrent) values (%s, 'l', 'limited', 3)",
            [made.project_id],
        )
        yield made
    databases.drop(made.dsn)


def became(mill: Mill, statement: str, jobs: Any, *more: str) -> Any:
    """What the first job came to: its state and all that is stored of it, without `more`; or its refusal. Undone at once."""
    with mill.conn.transaction(force_rollback=True):
        try:
            with mill.conn.transaction():
                rows = mill.conn.execute(statement.encode(), {"p": mill.project_id, "jobs": json.dumps(jobs), "now": T0}).fetchall()
        except psycopg.Error as error:
            return f"refused by {error.sqlstate}", str(error).split("\n", 1)[0]
        told = json.loads(rows[0][0]) if len(rows[0]) == 1 else [*map(str, rows[0][1:3]), *rows[0][3:]]
        if told[3] is not None:
            return f"refused as {told[3]}", told[5]
        found = mill.conn.execute(STORED.encode(), {"id": told[0], "chance": CHANCE + list(more)}).fetchone()
        return told[1], found


def drawn(seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [{name: rng.choice(VALUES[name]) for name in rng.sample(list(VALUES), 3)} for _ in range(scaled(30))]


@pytest.mark.parametrize("start", range(0, len(CASES), 30))
def test_a_job_alone_is_stored_or_refused_as_among_others(mill: Mill, start: int) -> None:
    for case in CASES[start : start + 30]:
        job = {"job_type": "t", **case}
        alone = became(mill, ONE, job)
        for statement, jobs in ((MANY, [job, PLAIN]), (ANY, [job, OTHER])):
            among = became(mill, statement, jobs)
            assert among[0] == alone[0], case
            assert among == alone or among[0].startswith("refused"), case


@pytest.mark.parametrize("start", range(0, len(CASES), 30))
def test_the_sql_door_is_as_strict_with_plain_jobs_as_with_others(mill: Mill, start: int) -> None:
    for case in CASES[start : start + 30]:
        job = {"job_type": "t", **case}
        alone = became(mill, DOOR, [job], "run_at")
        assert not alone[0].startswith("refused") or alone[0] in ("refused by TM422", "refused by TM429"), (case, alone)
        assert became(mill, DOOR, [job, PLAIN], "run_at") == alone, case
        among = became(mill, DOOR, [job, OTHER], "run_at")
        assert among == alone or case == {"queue": ""}, case  # a queue without a name is not there either


def test_jobs_of_several_odd_values_are_stored_alike_or_refused_everywhere(mill: Mill) -> None:
    for case in drawn(1):
        job = {"job_type": "t", **case}
        for alone, *others in (
            [became(mill, ONE, job), became(mill, MANY, [job, PLAIN]), became(mill, ANY, [job, OTHER])],
            [became(mill, DOOR, jobs, "run_at") for jobs in ([job], [job, PLAIN], [job, OTHER])],
        ):
            for among in others:
                assert among == alone or (alone[0].startswith("refused") and among[0].startswith("refused")), case


@pytest.mark.parametrize(
    "fault",
    [
        {"idempotency_key": 7}, {"partition_key": 7}, {"rate_class": 7}, {"sticky_worker": True}, {"hold": "true"}, {"weight": "2"},
        {"retention_ms": "5"}, {"ref": 7},
    ],
    ids=str,
)  # fmt: skip
def test_the_sql_door_takes_no_value_of_another_type(mill: Mill, fault: dict[str, Any]) -> None:
    (field,) = fault
    assert became(mill, DOOR, [{"job_type": "t", **fault}])[1].startswith(f"jobs[0].{field}: must be ")


def test_a_payload_from_a_table_is_measured_as_it_is_not_as_it_is_compressed(mill: Mill) -> None:
    mill.conn.execute("create temporary table outbox (jobs jsonb)")
    mill.conn.execute("insert into outbox values (jsonb_build_array(jsonb_build_object('job_type', 't', 'payload', repeat('x', 300000))))")
    with pytest.raises(psycopg.Error, match="payload: must be at most 262144 bytes"), mill.conn.transaction(force_rollback=True):
        mill.conn.execute("select tidemill.enqueue(%s, o.jobs) from outbox o", [mill.project_id])


@pytest.mark.parametrize("statement", [ONE, MANY, DOOR], ids=["one", "many", "door"])
def test_a_sleeper_is_rung_when_the_transaction_commits_and_not_for_what_was_taken_back(mill: Mill, statement: str) -> None:
    job: Any = {"job_type": "t"}
    params = {"p": mill.project_id, "jobs": json.dumps(job if statement == ONE else [job]), "now": T0}
    asleep = mill.another()
    channel = "tidemill_" + asleep.worker_id.replace("-", "")
    asleep.conn.execute(f"listen {channel}".encode())
    Sleepers(asleep.conn).sleep(mill.project_id, asleep.worker_id, ["default"])
    with mill.conn.transaction():
        with mill.conn.transaction(force_rollback=True):
            mill.conn.execute(statement.encode(), params)
        assert mill.count("queue_sleepers") == 1
    assert list(asleep.conn.notifies(timeout=0)) == []
    with mill.conn.transaction():
        mill.conn.execute(statement.encode(), params)
        assert list(asleep.conn.notifies(timeout=0)) == []
    assert [n.channel for n in asleep.conn.notifies(timeout=60, stop_after=1)] == [channel]
    assert mill.count("queue_sleepers") == 0


@pytest.mark.parametrize(("queue", "general"), [("default", False), ("roomy", False), ("full", True), ("absent", True)])
def test_a_plain_job_takes_the_short_way_unless_it_is_refused(mill: Mill, queue: str, general: bool) -> None:
    calls = "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions where schemaname = 'tidemill' and funcname = 'admit'"
    with mill.conn.transaction(force_rollback=True):
        mill.conn.execute("set local track_functions = 'pl'")
        before = mill.conn.execute(calls.encode()).fetchone()
        mill.conn.execute(ONE, {"p": mill.project_id, "jobs": json.dumps({"job_type": "t", "queue": queue}), "now": T0})
        after = mill.conn.execute(calls.encode()).fetchone()
    assert before is not None
    assert after == (before[0] + general,)
