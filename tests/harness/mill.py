"""A mill to work with in tests: one project on a database of the test's own, its verbs in short, and what is stored, read raw.

`Mill` is one connection (one process, one worker). `mill.another()` opens one more on the same project.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import Connection

from harness import lent
from harness.stored import ALL_OF_A_JOB, MISPLACED, ORPHANS
from tidemill.domain import keys
from tidemill.domain.jobs import Ack, AckResult, ClaimedJob, ClaimRequest, Enqueued, Failure, Heartbeat, HeartbeatAnswer, Lease
from tidemill.domain.transitions import Event, State
from tidemill.engine.claim import claim
from tidemill.engine.enqueue import enqueue
from tidemill.engine.heartbeat import heartbeat
from tidemill.engine.reap import Reaped, reap
from tidemill.engine.settle import settle
from tidemill.store.postgres import PostgresStore

T0 = datetime(2030, 1, 1, tzinfo=UTC)
S = timedelta(seconds=1)
M = timedelta(minutes=1)
H = timedelta(hours=1)
DAY = timedelta(days=1)
FIXED = {"strategy": "fixed", "base_delay_ms": 60_000, "jitter": False}


def scaled(rounds: int) -> int:
    """How often a race is run: `rounds`, times PROOF_SCALE where somebody has the time."""
    return rounds * int(os.environ.get("PROOF_SCALE", "1"))


def uuid7() -> str:
    return str(uuid.uuid4())


def failure(message: str = "it broke", error_class: str = "Boom", stack: str | None = None) -> Failure:
    return Failure(error_class, message, stack)


def ack_of(job: ClaimedJob | Lease, event: Event, **values: Any) -> Ack:
    """An ack with the digest that a repeat of it would have."""
    said = {k: (v.message if isinstance(v, Failure) else v) for k, v in values.items()}
    return Ack(job.job_id, job.lease_token, event, keys.digest([event.value, said]), **values)


def lease_of(job: ClaimedJob) -> Lease:
    return Lease(job.job_id, job.lease_token)


@dataclass
class Mill:
    """One worker's connection to a project."""

    dsn: str
    conn: Connection[Any]
    project_id: str
    worker_id: str = field(default_factory=uuid7)
    others: list[Mill] = field(default_factory=list)
    is_closed: bool = False

    def __post_init__(self) -> None:
        self.store = PostgresStore(self.conn)

    def another(self, *, worker_id: str | None = None) -> Mill:
        """One more connection, by default as another worker."""
        mill = Mill(self.dsn, lent.take(self.dsn), self.project_id, worker_id or uuid7())
        self.others.append(mill)
        return mill

    def close(self) -> None:
        for other in self.others:
            other.close()
        if not self.is_closed:
            self.is_closed = True
            lent.put(self.dsn, self.conn)

    @staticmethod
    def roll() -> float:
        return 0.5

    def queue(self, name: str, **columns: Any) -> str:
        """Makes a queue; its id. It quarantines nothing unless it is told when."""
        return self._named("queues", name, {"quarantine_after": 1_000, **columns})

    def policy(self, name: str, **columns: Any) -> str:
        """Makes a retry policy; its id."""
        return self._named("retry_policies", name, columns)

    def _named(self, table: str, name: str, columns: dict[str, Any]) -> str:
        names = "".join(f", {column}" for column in columns)
        values = "".join(f", %({column})s" for column in columns)
        into = f"insert into tidemill.{table} (id, project_id, name{names})"
        statement = f"{into} values (gen_random_uuid(), %(p)s, %(n)s{values}) returning id::text"
        row = self.conn.execute(statement.encode(), {"p": self.project_id, "n": name, **columns}).fetchone()
        assert row is not None
        return str(row[0])

    def enqueue_all(self, jobs: Sequence[dict[str, Any]], *, atomic: bool = True, now: datetime | None = None) -> list[Enqueued]:
        return enqueue(self.store, self.project_id, [{"job_type": "t", **job} for job in jobs], atomic=atomic, now=now)

    def put(self, now: datetime | None = None, **spec: Any) -> Enqueued:
        """Enqueues one job."""
        return self.enqueue_all([spec], now=now)[0]

    def new(self, now: datetime | None = None, **spec: Any) -> str:
        """Enqueues one job; its id."""
        job_id = self.put(now, **spec).job_id
        assert job_id is not None
        return job_id

    def claim(
        self,
        limit: int = 1,
        *,
        queues: Sequence[str] = ("default",),
        start: bool = True,
        lease_ms: int | None = 30_000,
        job_types: Sequence[str] | None = None,
        now: datetime | None = None,
    ) -> list[ClaimedJob]:
        request = ClaimRequest(self.project_id, self.worker_id, queues, limit, job_types, lease_ms, start)
        return claim(self.store, request, now=now)

    def claim_one(self, **how: Any) -> ClaimedJob:
        jobs = self.claim(1, **how)
        assert jobs, "nothing to claim"
        return jobs[0]

    def settle(self, acks: Sequence[Ack], *, now: datetime | None = None) -> list[AckResult]:
        return settle(self.store, acks, roll=self.roll, now=now)

    def ack(self, job: ClaimedJob | Lease, event: Event, *, now: datetime | None = None, **values: Any) -> AckResult:
        return self.settle([ack_of(job, event, **values)], now=now)[0]

    def complete(self, job: ClaimedJob | Lease, result: Any = None, *, now: datetime | None = None) -> AckResult:
        return self.ack(job, Event.COMPLETE, result=None if result is None else json.dumps(result), now=now)

    def fail(self, job: ClaimedJob | Lease, message: str = "it broke", *, now: datetime | None = None, **values: Any) -> AckResult:
        return self.ack(job, Event.FAIL, failure=failure(message), now=now, **values)

    def beat(self, *jobs: ClaimedJob | Lease, now: datetime | None = None) -> HeartbeatAnswer:
        leases = [Lease(job.job_id, job.lease_token) for job in jobs]
        return heartbeat(self.store, self.project_id, self.worker_id, Heartbeat(leases), now=now)

    def reap(self, *, limit: int = 500, now: datetime | None = None) -> Reaped:
        return reap(self.store, limit=limit, roll=self.roll, now=now)

    def lapse(self, *job_ids: str) -> None:
        """Moves the end of leases into the past."""
        self.conn.execute(
            "update tidemill.job_leases set claimed_at = claimed_at - interval '1 day', lease_expires_at = now() - interval '1 second'"
            " where job_id = any(%s::uuid[])",
            [list(job_ids)],
        )

    def make_due(self, job_id: str) -> None:
        """Lets a job be due now, as if the time had gone by."""
        with self.conn.transaction():
            self.conn.execute("update tidemill.job_queue_entries set run_at = now() where job_id = %s", [job_id])
            self.conn.execute("update tidemill.jobs set run_at = now() where id = %s", [job_id])

    def die(self, job_id: str) -> None:
        """Takes the job through a failure that is not retried."""
        job = self.claim_job(job_id)
        assert self.fail(job, retryable=False).state == State.DEAD_LETTER

    def claim_job(self, job_id: str, **how: Any) -> ClaimedJob:
        """Claims that job (it must be next)."""
        job = self.claim_one(**how)
        assert job.job_id == job_id
        return job

    def state(self, job_id: str, *, now: datetime | None = None) -> str:
        found = self.store.state(self.project_id, job_id, now=now)
        assert found is not None, f"no job {job_id}"
        return found[0].value

    def stored(self, job_id: str) -> dict[str, Any]:
        """Every row of the job in every table."""
        row = self.conn.execute(ALL_OF_A_JOB, {"id": job_id}).fetchone()
        assert row is not None
        return dict(row[0])

    def view(self, job_id: str) -> dict[str, Any]:
        row = self.conn.execute("select to_jsonb(s) from tidemill.job_states s where s.id = %s", [job_id]).fetchone()
        assert row is not None
        return dict(row[0])

    def executions(self, job_id: str) -> list[dict[str, Any]]:
        return list(self.stored(job_id)["executions"] or [])

    def count(self, table: str) -> int:
        row = self.conn.execute(f"select count(*) from tidemill.{table}".encode()).fetchone()
        assert row is not None
        return int(row[0])

    def holder(self, kind: str = "unique") -> list[str]:
        """The jobs that hold keys."""
        rows = self.conn.execute("select job_id::text from tidemill.unique_holds where kind = %s order by key", [kind]).fetchall()
        return [row[0] for row in rows]

    def misplaced(self) -> list[tuple[Any, ...]]:
        """Jobs that are nowhere or in two places, and entries and leases of no job. Always empty."""
        wrong: list[tuple[Any, ...]] = []
        for row in self.conn.execute(MISPLACED):
            _, phase, entries, findable, leases, completions = row
            ok = (entries + leases + completions == 1 and entries == findable) if phase == "moving" else entries + leases + completions == 0
            if not ok:
                wrong.append(row)
        for statement in ORPHANS:
            wrong.extend(self.conn.execute(statement))
        return wrong


def found_project(conn: Connection[Any], name: str = "p") -> str:
    """A project with a queue `default` that quarantines nothing; its id."""
    row = conn.execute(
        "with o as (insert into tidemill.organizations (id, name, slug) values (gen_random_uuid(), 'o', %(n)s) returning id),"
        " p as (insert into tidemill.projects (id, org_id, name) select gen_random_uuid(), id, %(n)s from o returning id),"
        " q as (insert into tidemill.queues (id, project_id, name, quarantine_after) select gen_random_uuid(), id, 'default', 1000 from p)"
        " select id::text from p",
        {"n": name},
    ).fetchone()
    assert row is not None
    return str(row[0])


@contextmanager
def opened(dsn: str) -> Iterator[Mill]:
    """A mill on a fresh project of this database."""
    conn = lent.take(dsn)
    mill = Mill(dsn, conn, found_project(conn))
    try:
        yield mill
    finally:
        mill.close()


def until(look: Callable[[], Any], *, within_s: float = 120) -> Any:
    """What `look` returns once it is true; it asks the database each time, so no sleep is needed.

    The bound is for what never comes: a machine with many neighbours takes its time.
    """
    ends_at = time.monotonic() + within_s
    while time.monotonic() < ends_at:
        if found := look():
            return found
    raise AssertionError(f"it never came true within {within_s:g} s")


def waiting_on_locks(conn: Connection[Any]) -> int:
    """How many backends of this database wait for a lock right now."""
    conn.execute("select pg_stat_clear_snapshot()")  # in a transaction, the second look would see what the first one saw
    row = conn.execute("select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'").fetchone()
    return int(row[0]) if row else 0
