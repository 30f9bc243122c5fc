"""An old snapshot keeps every dead row in its index. What a batch reads stays the same all the same: counted by the server, so no noise."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from psycopg import Connection

from harness import crowd
from harness.crowd import PROJECT, WORKER
from harness.databases import Databases
from tidemill.domain.jobs import Ack, ClaimRequest, Heartbeat, Lease
from tidemill.domain.transitions import Event
from tidemill.engine.claim import claim
from tidemill.engine.heartbeat import heartbeat
from tidemill.engine.reap import reap
from tidemill.engine.settle import settle
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore
from tidemill.store.watermarks import FULL_SCAN_EVERY_SECS, FULL_SCAN_SHARE, ReapMark, Turns, Watermarks

BATCH = 200
BATCHES = 50
GROWTH = 1.1
REQUEST = ClaimRequest(PROJECT, WORKER, ["default"], BATCH)


class Clock:
    """Moves by a hundredth of a second with every look."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        self.now += 0.01
        return self.now


@dataclass(frozen=True)
class Read:
    """What a database has read so far: index rows, dead ones too, and blocks of tables and indexes."""

    rows: int
    blocks: int

    def __sub__(self, other: Read) -> Read:
        return Read(self.rows - other.rows, self.blocks - other.blocks)


def read(conn: Connection) -> Read:
    conn.execute("select pg_stat_force_next_flush()")
    row = conn.execute(
        "select (select sum(idx_tup_read) from pg_stat_user_indexes where schemaname = 'tidemill')::bigint,"
        " (select sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0)) from pg_statio_user_tables"
        "  where schemaname = 'tidemill')::bigint"
    ).fetchone()
    assert row is not None
    return Read(*row)


@pytest.fixture
def conn(databases: Databases) -> Iterator[Connection]:
    """On a database in which another session holds a snapshot from before all jobs, and nobody vacuums."""
    dsn = databases.clone()
    with connect(dsn) as ours, connect(dsn) as reader:
        crowd.keep_statistics(ours)
        crowd.found(ours)
        reader.execute("begin isolation level repeatable read")
        reader.execute("select count(*) from tidemill.jobs").fetchone()
        yield ours
        reader.execute("rollback")
    databases.drop(dsn)


def batch(store: PostgresStore) -> int:
    """One turn of a worker and of the scheduler beside it: claim, heartbeat, reap, complete."""
    jobs = claim(store, REQUEST)
    leases = [Lease(job.job_id, job.lease_token) for job in jobs]
    heartbeat(store, PROJECT, WORKER, Heartbeat(leases))
    reap(store, roll=random.random)
    settle(store, [Ack(lease.job_id, lease.lease_token, Event.COMPLETE, 1) for lease in leases], roll=random.random)
    return len(jobs)


def test_a_batch_reads_no_more_after_fifty_others_under_an_old_snapshot(conn: Connection) -> None:
    crowd.needs_plans_of_17(conn)
    crowd.fill(conn, crowd.ENTRIES, BATCH * BATCHES, "-1 hour", step="1 ms")
    store = PostgresStore(conn)
    store.watermarks, store.reap_mark = Watermarks(Clock()), ReapMark(Clock())
    each = []
    for _ in range(BATCHES):
        before = read(conn)
        assert batch(store) == BATCH
        each.append(read(conn) - before)
    early, late = each[5:15], each[-10:]
    rows = sum(r.rows for r in late) / sum(r.rows for r in early)
    blocks = sum(r.blocks for r in late) / sum(r.blocks for r in early)
    print(f"index rows per job: {early_per_job(early):.1f}, later x {rows:.3f}; blocks x {blocks:.3f}")
    assert rows <= GROWTH
    assert blocks <= GROWTH


def early_per_job(early: list[Read]) -> float:
    return sum(r.rows for r in early) / len(early) / BATCH


def test_a_reaper_walks_leases_that_are_gone_once(conn: Connection) -> None:
    """Leases that ran out and were acked late: the first look meets them, the next starts behind them."""
    conn.execute("set enable_seqscan = off")  # two thousand rows are no crowd
    crowd.fill(conn, crowd.LEASES, 2_000, "-1 hour")
    held = conn.execute("select job_id::text, lease_token::text from tidemill.job_leases").fetchall()
    store = PostgresStore(conn)
    store.reap_mark = ReapMark(Clock())
    settle(store, [Ack(*lease, Event.COMPLETE, 1) for lease in held], roll=random.random)
    looks = []
    for _ in range(3):
        before = read(conn)
        assert reap(store, roll=random.random).expired == 0
        looks.append(read(conn) - before)
    assert looks[0].rows >= 2_000
    assert looks[1].rows < 100
    assert looks[2].rows < 100


def test_a_pass_rings_only_for_what_came_due_since_the_last_one(conn: Connection) -> None:
    conn.execute("set enable_seqscan = off")
    crowd.fill(conn, crowd.ENTRIES, 2_000, "-1 minute")
    store = PostgresStore(conn)
    while claim(store, REQUEST):
        pass
    looks = []
    for _ in range(2):
        before = read(conn)
        assert store.ring(100, now=None)[0] == 0
        looks.append(read(conn) - before)
    assert looks[0].rows >= 2_000
    assert looks[1].rows < 100


def test_a_lease_that_was_committed_late_is_reaped_by_the_scan_from_the_beginning(conn: Connection) -> None:
    store, clock = PostgresStore(conn), Clock()
    store.reap_mark = ReapMark(clock)
    assert reap(store, roll=random.random).expired == 0
    crowd.fill(conn, crowd.LEASES, 3, "-1 hour")
    assert reap(store, roll=random.random).expired == 0  # behind the mark
    clock.now += FULL_SCAN_EVERY_SECS
    assert reap(store, roll=random.random).expired == 3


def test_scans_from_the_beginning_take_no_more_than_their_share_of_the_time() -> None:
    clock = Clock()
    turns = Turns(clock)
    assert turns.is_due()
    clock.now += 2.0
    turns.took()
    clock.now += 2.0 / FULL_SCAN_SHARE - 1.0
    assert not turns.is_due()
    clock.now += 3.0
    assert turns.is_due()
    turns.took()  # a quick one
    clock.now += FULL_SCAN_EVERY_SECS
    assert turns.is_due()


def test_a_clock_that_was_set_back_makes_a_scan_due() -> None:
    clock = Clock()
    turns = Turns(clock)
    assert turns.is_due()
    turns.took()
    clock.now -= 3_600
    assert turns.is_due()
