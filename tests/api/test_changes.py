"""Changes: whoever follows them learns of every job, queue, schedule and worker that changed, also of what is committed late."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from api.gateway import Gateway
from harness.databases import Databases
from tidemill.store import changes as store_changes


@pytest.fixture(scope="module")
def databases(quiet_databases: Databases) -> Databases:
    """A cursor is a snapshot of the whole server: beside open transactions something is told twice."""
    return quiet_databases


class Follower:
    """Somebody who follows a project's changes."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.cursor = self.look()["cursor"]

    def look(self, **query: Any) -> dict[str, Any]:
        reply = self.gateway.get("/v1/changes", query=query)
        assert reply.status == 200, reply.text
        found: dict[str, Any] = reply.json
        return found

    def next(self, **query: Any) -> dict[str, Any]:
        found = self.look(since=self.cursor, **query)
        self.cursor = found["cursor"]
        return found

    def jobs(self, **query: Any) -> dict[str, str]:
        return {job["id"]: job["state"] for job in self.next(**query)["jobs"]}


EMPTY: dict[str, Any] = {"jobs": [], "queues": [], "schedules": [], "workers": [], "truncated": False, "overview": None}


def test_the_first_answer_is_only_where_to_begin_and_quiet_means_empty(gateway: Gateway) -> None:
    gateway.enqueue()
    follower = Follower(gateway)
    for _ in range(2):
        found = follower.next()
        assert {**EMPTY, "cursor": found["cursor"]} == found


def test_every_step_of_a_jobs_life_is_told_once(gateway: Gateway) -> None:
    worker = gateway.worker()
    follower = Follower(gateway)
    job_id = gateway.enqueue(max_attempts=2)
    assert follower.jobs() == {job_id: "queued"}
    (job,) = gateway.claim(worker, start=False)
    assert follower.jobs() == {job_id: "claimed"}
    gateway.post(f"/v1/jobs/{job_id}/start", {"lease_token": job["lease_token"]})
    assert follower.jobs() == {job_id: "running"}
    gateway.post(f"/v1/jobs/{job_id}/cancel")
    assert follower.jobs() == {job_id: "running"}
    gateway.ack(job, "cancelled")
    assert follower.jobs() == {job_id: "cancelled"}
    assert follower.jobs() == {}


def test_where_something_changed_the_project_is_shown_at_a_glance(gateway: Gateway) -> None:
    gateway.worker(max_concurrency=3)
    follower = Follower(gateway)
    assert follower.look()["overview"]["states"]["queued"] == {"count": 0, "approximate": False}
    gateway.enqueue()
    seen = follower.next()["overview"]
    assert (seen["states"]["queued"]["count"], seen["live_workers"], seen["worker_slots"]) == (1, 1, 3)
    assert follower.next()["overview"] is None


def test_failures_retries_completions_and_deaths_are_told(gateway: Gateway) -> None:
    follower = Follower(gateway)
    made = [gateway.enqueue(f"t{n}", retention_ms=10**9 if n == 3 else None) for n in range(4)]
    follower.next()
    jobs = {job["id"]: job for job in gateway.claim()}
    follower.next()
    gateway.ack(jobs[made[0]], "complete")
    gateway.ack(jobs[made[1]], "fail", retryable=False)
    gateway.ack(jobs[made[2]], "fail", retry_delay_ms=10**6)
    gateway.ack(jobs[made[3]], "complete")
    assert follower.jobs() == {made[0]: "completed", made[1]: "dead_letter", made[2]: "scheduled", made[3]: "completed"}
    gateway.post(f"/v1/dead-letters/{made[1]}/resolve", {"action": "retry"})
    assert follower.jobs() == {made[1]: "queued"}


def test_an_operators_hand_is_told_even_where_the_job_gets_no_new_time(gateway: Gateway) -> None:
    held, ahead = gateway.enqueue(hold=True), gateway.enqueue(delay_ms=10**7)
    follower = Follower(gateway)
    gateway.request("PATCH", f"/v1/jobs/{ahead}", {"tags": ["x"]})
    assert follower.jobs() == {ahead: "scheduled"}
    gateway.post(f"/v1/jobs/{held}/promote")
    assert follower.jobs() == {held: "queued"}
    gateway.post(f"/v1/jobs/{ahead}/cancel")
    assert follower.jobs() == {ahead: "cancelled"}


def test_time_alone_changes_a_scheduled_job(gateway: Gateway) -> None:
    job_id = gateway.enqueue(delay_ms=10**7)
    follower = Follower(gateway)
    assert follower.jobs() == {}
    at = "clock_timestamp()"  # as if its time had come just now, without a write that a snapshot could see
    gateway.sql(f"with n as (select {at} as at), j as (update tidemill.jobs set run_at = n.at from n)"
                " update tidemill.job_queue_entries set run_at = n.at from n")  # fmt: skip
    assert follower.jobs() == {job_id: "queued"}
    assert follower.jobs() == {}


def test_what_is_committed_late_is_told_late_and_what_was_rolled_back_never(gateway: Gateway) -> None:
    follower = Follower(gateway)
    with psycopg.connect(gateway.dsn) as late, psycopg.connect(gateway.dsn) as never:
        enqueue = "select job_id::text from tidemill.enqueue(%s, %s)"
        jobs = json.dumps([{"job_type": "t"}])
        job_id = late.execute(enqueue, [gateway.project_id, jobs]).fetchone()[0]
        never.execute(enqueue, [gateway.project_id, jobs])
        between = gateway.enqueue()
        for expected in ({between: "queued"}, {}, {}):
            assert {k: v for k, v in follower.jobs().items() if k != between or expected} == expected
        late.commit()
        never.rollback()
    assert job_id in follower.jobs()
    assert follower.jobs() == {}


def test_what_a_savepoint_wrote_is_not_missed_and_ends_no_wait_twice(gateway: Gateway) -> None:
    follower = Follower(gateway)
    with psycopg.connect(gateway.dsn) as late:
        late.execute("create table public.other (n int)")
        follower.next()
        with late.transaction():
            row = late.execute(
                "select job_id::text from tidemill.enqueue(%s, %s)", [gateway.project_id, json.dumps([{"job_type": "t"}])]
            ).fetchone()
        for _ in range(3):
            assert follower.jobs() == {}
    assert row is not None
    assert row[0] in follower.jobs()
    assert follower.jobs() == {}


def test_queues_schedules_and_workers_are_told(gateway: Gateway) -> None:
    gateway.post("/v1/queues", {"name": "slow"})
    follower = Follower(gateway)
    gateway.post("/v1/queues/slow/pause")
    assert follower.next()["queues"] == ["slow"]
    gateway.request("PUT", "/v1/schedules/nightly", {"every_ms": 3_600_000, "job": {"job_type": "t"}})
    assert follower.next()["schedules"] == ["nightly"]
    gateway.post("/v1/schedules/nightly/pause")
    assert follower.next()["schedules"] == ["nightly"]
    gateway.request("DELETE", "/v1/schedules/nightly")
    assert follower.next()["schedules"] == ["nightly"]
    worker = gateway.worker()
    assert follower.next()["workers"] == [worker]
    gateway.post(f"/v1/workers/{worker}/command", {"command": "quiet"})
    assert follower.next()["workers"] == [worker]
    gateway.enqueue(queue="slow")
    assert follower.next()["queues"] == ["slow"]


def test_a_wait_ends_with_the_first_change_and_holds_no_transaction_meanwhile(gateway: Gateway) -> None:
    follower = Follower(gateway)
    slept: list[float] = []
    made: list[str] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        query = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in%%'"
        assert gateway.sql(query) == [(0,)]
        if len(slept) == 3:
            made.append(gateway.enqueue())

    gateway.app("admin")._dispatcher._sleep = sleep
    assert list(follower.jobs(wait_ms=20_000)) == made
    assert len(slept) == 3
    slept.clear()
    assert follower.jobs(wait_ms=500) == {}
    assert sum(slept) <= 0.5
    assert follower.look(wait_ms=20_000)["jobs"] == []  # a first call has nothing to wait for
    assert len(slept) <= 3


def test_a_beat_alone_ends_no_wait(gateway: Gateway) -> None:
    worker = gateway.worker()
    follower = Follower(gateway)
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        gateway.post(f"/v1/workers/{worker}/heartbeat", {"leases": []})

    gateway.app("admin")._dispatcher._sleep = sleep
    assert follower.next(wait_ms=1_000)["workers"] == [worker]
    assert sum(looks) >= 0.99


def test_a_flood_is_told_as_one_and_costs_a_bounded_look(gateway: Gateway) -> None:
    follower = Follower(gateway)
    for _ in range(2):
        assert gateway.post("/v1/jobs/bulk", {"jobs": [{"job_type": "t"}] * 1_000}).status == 200
    found = follower.next()
    assert found["truncated"] is True
    assert len(found["jobs"]) == store_changes.JOBS
    assert follower.next() == {**EMPTY, "cursor": follower.cursor}


def test_cursors_are_the_projects_own(gateway: Gateway) -> None:
    cursor = Follower(gateway).cursor
    other = Gateway(gateway.dsn)
    try:
        assert other.get("/v1/changes", query={"since": cursor}).status == 422
        follower = Follower(other)
        gateway.enqueue()
        gateway.claim()
        assert follower.next() == {**EMPTY, "cursor": follower.cursor}
    finally:
        other.close()
    for query in ({"since": "x"}, {"since": ""}, {"wait_ms": "20001"}, {"wait_ms": "-1"}, {"since": cursor, "limit": "1"}):
        assert gateway.get("/v1/changes", query=query).status == 422


def test_very_many_open_transactions_make_no_endless_cursor() -> None:
    snapshot = "10:99:" + ",".join(str(n) for n in range(10, 99, 2))
    assert store_changes._short(snapshot) == "10:10:"
    assert store_changes._short("10:12:10,11") == "10:12:10,11"
    assert store_changes._short("10:10:") == "10:10:"
