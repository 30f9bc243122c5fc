"""B051: nothing passes a quarantine once it is committed, and no release leaves a job behind, whoever does what at the same time."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from harness.mill import Mill, ack_of, failure, scaled, until
from tidemill.domain.errors import NotFound
from tidemill.domain.transitions import Event
from tidemill.engine.quarantine import Verb, end_quarantine, sweep
from tidemill.engine.reap import reap
from tidemill.store.database import Database

KINDS = 6
LATE = """
select count(*) from (
    select x.job_id, x.started_at from tidemill.job_executions x
    union all select l.job_id, l.claimed_at from tidemill.job_leases l) a
join tidemill.jobs j on j.id = a.job_id
where j.payload = to_jsonb(%s::integer) and a.started_at > %s
"""
STRANDED = """
select count(*) from tidemill.jobs j where j.phase = 'quarantined' and not exists (
    select 1 from tidemill.quarantine x where x.project_id = j.project_id and x.fingerprint = j.fingerprint)
"""


@pytest.fixture(autouse=True)
def queue(mill: Mill) -> None:
    mill.queue("q", quarantine_after=3)


def bomb(kind: int, **more: Any) -> dict[str, Any]:
    retry = {"strategy": "fixed", "base_delay_ms": 0, "jitter": False}
    return {"job_type": "bomb", "payload": kind, "queue": "q", "retry_policy": retry, "max_attempts": 1000, **more}


@dataclass
class Race:
    """What the threads of a race share."""

    over: threading.Event = field(default_factory=threading.Event)
    known: dict[int, datetime] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)

    def run(self, *works: Callable[[], object]) -> None:
        """All at once; the first failure of any ends the race."""
        threads = [threading.Thread(target=self._guarded, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        if self.failures:
            raise self.failures[0]

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised in the test's own thread
            self.failures.append(error)
            self.over.set()

    def look(self, mill: Mill) -> None:
        """Notes from when on a kind is known to be quarantined: any later claim of it would be wrong."""
        rows = mill.conn.execute("select distinct j.payload::integer from tidemill.jobs j where j.phase = 'quarantined'").fetchall()
        row = mill.conn.execute("select clock_timestamp()").fetchone()
        assert row is not None
        for (kind,) in rows:
            self.known.setdefault(kind, row[0])
        if len(self.known) == KINDS:
            self.over.set()


def enqueuer(mill: Mill, race: Race, seed: int) -> None:
    chance = random.Random(seed)
    while not race.over.is_set():
        lane = {} if chance.random() < 0.7 else {"partition_key": "p"}
        mill.enqueue_all([bomb(chance.randrange(KINDS), **lane), {"job_type": "fine", "queue": "q", "payload": {"x": 1}}])


def worker(mill: Mill, race: Race, seed: int) -> None:
    """Crashes, or goes silent."""
    chance = random.Random(seed)
    while not race.over.is_set():
        for job in mill.claim(5, queues=["q"]):
            if job.job_type == "fine":
                mill.complete(job)
            elif chance.random() < 0.5:
                mill.ack(job, Event.CRASH, failure=failure(), exit_code=-9)
            else:
                mill.lapse(job.job_id)


def reaper(mill: Mill, race: Race) -> None:
    database = Database(mill.dsn)
    while not race.over.is_set():
        database.run(lambda store: reap(store, roll=mill.roll))
        database.run(lambda store: sweep(store, limit=20))
        race.look(mill)
    database.close()


def test_no_job_is_claimed_after_its_fingerprint_was_quarantined(mill: Mill) -> None:
    """Two enqueuers, two workers, two reapers that also sweep."""
    race = Race()
    workers = [partial(worker, mill.another(), race, seed) for seed in range(2)]
    race.run(
        *(partial(enqueuer, mill.another(), race, s) for s in range(2)), *workers, *(partial(reaper, mill.another(), race) for _ in "12")
    )
    assert {kind: mill.conn.execute(LATE, [kind, at]).fetchone() for kind, at in race.known.items()} == dict.fromkeys(range(KINDS), (0,))
    while sweep(mill.store)["more"]:
        pass
    while jobs := mill.claim(100, queues=["q"]):
        assert {job.job_type for job in jobs} == {"fine"}
        mill.settle([ack_of(job, Event.COMPLETE) for job in jobs])
    mill.conn.execute("update tidemill.job_leases set claimed_at = now() - interval '1 day', lease_expires_at = now() - interval '1 hour'")
    mill.reap()
    states = mill.conn.execute("select job_type::text, status::text from tidemill.job_states group by 1, 2 order by 1").fetchall()
    assert [s for s in states if s[0] == "bomb"] == [("bomb", "quarantined")]
    assert mill.misplaced() == []


def slow_enqueuer(mill: Mill, opened: threading.Barrier, go: threading.Event, made: list[str]) -> None:
    """Enqueues in a transaction that stays open across a release, and goes on."""
    with mill.conn.transaction():
        made.append(mill.new(**bomb(0)))
        opened.wait(timeout=120)
        go.wait(timeout=120)
    made.extend(mill.new(**bomb(0)) for _ in range(10))


def releaser(mill: Mill, key: str, opened: threading.Barrier, go: threading.Event) -> None:
    opened.wait(timeout=120)
    try:
        end_quarantine(mill.store, mill.project_id, key, "release")
        sweep(mill.store)
        assert mill.count("quarantine") == 1, "kept for those who may still commit a job under it"
    finally:
        go.set()


def test_release_that_meets_open_transactions_strands_nothing_and_waits_for_nobody(mill: Mill) -> None:
    key = quarantined(mill)
    for _ in range(scaled(4)):
        made: list[str] = []
        opened, go = threading.Barrier(4), threading.Event()
        slow = [partial(slow_enqueuer, mill.another(), opened, go, made) for _ in range(3)]
        Race().run(*slow, partial(releaser, mill.another(), key, opened, go))
        until(lambda: not sweep(mill.store)["more"] and mill.count("quarantine") == 0)
        assert mill.conn.execute(STRANDED).fetchone() == (0,)
        assert {mill.state(job_id) for job_id in made} == {"queued"}
        assert mill.misplaced() == []
        assert {job.job_id for job in mill.claim(500, queues=["q"])} >= set(made)
        quarantined(mill, begun=True)


def quarantined(mill: Mill, *, begun: bool = False) -> str:
    """Kind 0, blown up by three of its jobs (those that are leased, if it has `begun`); its fingerprint."""
    if not begun:
        mill.enqueue_all([bomb(0)] * 3)
        mill.claim(3, queues=["q"])
    mill.lapse(*(lease.job_id for lease in mill.store.leases_of(mill.project_id, mill.worker_id, 500)))
    assert mill.reap().quarantined >= 3
    row = mill.conn.execute("select encode(fingerprint, 'hex') from tidemill.quarantine where is_quarantined").fetchone()
    assert row is not None
    return str(row[0])


def test_releases_discards_and_sweeps_at_once_move_each_job_once(mill: Mill) -> None:
    keys = []
    for kind in range(2):
        first = mill.new(**bomb(kind))
        for _ in range(3):
            mill.ack(mill.claim_job(first, queues=["q"]), Event.CRASH, failure=failure())
        mill.enqueue_all([bomb(kind)] * 300)
        row = mill.conn.execute("select encode(fingerprint, 'hex') from tidemill.jobs where id = %s", [first]).fetchone()
        assert row is not None
        keys.append(str(row[0]))

    ending = [partial(ended, mill.another(), key, verb) for key, verb in ((keys[0], "release"), (keys[1], "discard")) for _ in "12"]
    Race().run(*ending)
    until(lambda: not sweep(mill.store)["more"])
    states = mill.conn.execute("select payload::integer, phase::text, count(*) from tidemill.jobs group by 1, 2 order by 1").fetchall()
    assert states == [(0, "moving", 301), (1, "cancelled", 301)]
    assert mill.conn.execute(STRANDED).fetchone() == (0,)
    assert mill.misplaced() == []


def ended(mill: Mill, key: str, verb: Verb) -> None:
    """Asks for it and then makes every step that there is to make."""
    database = Database(mill.dsn)
    with contextlib.suppress(NotFound):  # released by another meanwhile
        database.run(lambda store: end_quarantine(store, mill.project_id, key, verb))
    while database.run(lambda store: sweep(store, limit=50))["more"]:
        pass
    database.close()
