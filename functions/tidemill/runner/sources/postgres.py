"""Jobs straight from Postgres, for workers inside the VPC.

Connections of its own: claims (which need not be durable: a claim that a crash forgets never happened, docs/adr/0003; it also
listens for the doorbell), acks, heartbeats, and one for reports when the first is made.
"""

from __future__ import annotations

import os
import random
import secrets
import select
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import psycopg

from tidemill.domain.errors import Invalid, NotFound, TidemillError, Unavailable
from tidemill.domain.jobs import (
    Ack,
    AckResult,
    ClaimedJob,
    ClaimRequest,
    Enqueued,
    Heartbeat,
    HeartbeatAnswer,
    JobSpec,
    Lease,
    LogLine,
    ParentResult,
    Registered,
    Registration,
)
from tidemill.domain.schedule import Spec
from tidemill.domain.transitions import Event
from tidemill.engine import claim as claims
from tidemill.engine import heartbeat as heartbeats
from tidemill.engine import report as reports
from tidemill.engine import schedules
from tidemill.engine import settle as settles
from tidemill.engine import worker as workers
from tidemill.engine.duties import duties
from tidemill.runner.sources.link import Link
from tidemill.store.sleepers import Sleepers
from tidemill.store.statements import load_all

STRAYS = 1_000
BEAT_MS = 5_000
CLAIM_SESSION = "set synchronous_commit = off"
WORD_WAIT_SECS = 1.0
MANY = 64
"""Who holds so many jobs will end some of them soon, and learns of its own acks at once."""
LULL_SECS = 0.02
"""How long a worker rests first that found nothing at a gated queue; each time twice as long, as far as its claimer lets it."""


class PostgresSource:
    """Implements ports.JobSource. dsn: a connection string, or a function that returns a fresh one (for tokens that expire)."""

    def __init__(self, dsn: str | Callable[[], str], project_id: str | None = None) -> None:
        """project_id None: the only project in the database."""
        load_all()
        fresh = dsn if callable(dsn) else lambda: dsn
        self._given_project = project_id
        self._project_id = ""
        self._worker_id = ""
        self._request: ClaimRequest | None = None
        self._asleep = False
        self._lull_secs: float | None = None
        self._in_hand: set[str] = set()
        self.is_spent = False
        self._awaited, self._waker = os.pipe()
        os.set_blocking(self._awaited, False)
        os.set_blocking(self._waker, False)
        self._claims = Link(fresh, self._prepare_claims)
        self._acks = Link(fresh)
        self._beats = Link(fresh, self._prepare_beats)
        self._ticks = Link(fresh)
        self._closing = threading.Event()
        self._heed: Callable[[], None] = lambda: None
        self._reports = Link(fresh)

    def register(self, registration: Registration) -> Registered:
        if not self._project_id:
            self._project_id = self._acks.run(lambda store: _project(store.projects(self._given_project), self._given_project))
        worker_id, project_id = _uuid7(), self._project_id
        made = self._acks.run(lambda store: workers.register(store, project_id, worker_id, registration))
        self._claims.drop()
        self._worker_id = worker_id
        self._request = ClaimRequest(
            project_id, worker_id, tuple(registration.queues), 0, job_types=registration.job_types, lease_ms=registration.lease_ms
        )
        # A beat costs little here, and it is how a cancel is heard.
        return Registered(worker_id, min(made.heartbeat_interval_ms, BEAT_MS), made.lease_ms)

    def declare_schedules(self, declared_by: str, specs: Mapping[str, Spec]) -> Mapping[str, int]:
        return self._acks.run(lambda store: schedules.sync(store, self._project_id, declared_by, specs, new_id=_uuid7))

    def claim(self, limit: int) -> list[ClaimedJob]:
        known = self._request
        assert known is not None, "register comes first"
        request = ClaimRequest(known.project_id, known.worker_id, known.queues, limit, known.job_types, known.lease_ms)
        self._hush()
        jobs, is_gated, self.is_spent = self._claims.run(
            lambda store: (claims.claim_in_turn(store, request), store.met_gates, store.is_spent)
        )
        self._in_hand.update(job.lease_token for job in jobs)
        if not is_gated:
            self._lull_secs = None
        elif jobs or self._lull_secs is None:
            self._lull_secs = LULL_SECS
        if self._asleep and len(jobs) == limit:
            self._claims.run(lambda store: store.rise(self._worker_id))
            self._asleep = False
        return jobs

    def rest(self, timeout_s: float) -> None:
        known = self._request
        assert known is not None, "register comes first"
        # what shuts the gates may be what we hold ourselves: our next ack wakes us, and until then another claim would be in vain
        is_short = self._lull_secs == LULL_SECS and len(self._in_hand) >= MANY
        if not self._asleep and not is_short:
            self._claims.run(lambda store: self._doze(store, known))
            return
        if self._lull_secs is not None:
            timeout_s = min(timeout_s, self._lull_secs)
            self._lull_secs *= 2
        if not self._asleep:
            self._wait(timeout_s)
            return
        due_secs = self._claims.run(lambda store: store.next_due_secs(known.project_id, known.queues, timeout_s))
        if self._asleep:
            self._wait(timeout_s if due_secs is None else min(timeout_s, due_secs))

    def wake(self) -> None:
        try:
            os.write(self._waker, b"!")
        except OSError:
            return  # full of wakes, or closed

    def settle(self, acks: Sequence[Ack]) -> list[AckResult]:
        results = self._acks.run(lambda store: settles.settle(store, acks, roll=random.random))
        self._in_hand.difference_update([ack.lease_token for ack in acks])
        if self._lull_secs is not None:
            self.wake()
        return results

    def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        answer = self._beats.run(lambda store: heartbeats.heartbeat(store, self._project_id, self._worker_id, beat))
        if answer.lost:  # nothing is said of them any more
            lost = set(answer.lost)
            self._in_hand.difference_update([lease.lease_token for lease in beat.leases if lease.job_id in lost])
        return answer

    def on_word(self, heed: Callable[[], None]) -> None:
        self._heed = heed
        threading.Thread(target=self._listen, name="tidemill-words", daemon=True).start()

    def tick(self) -> None:
        """The scheduler's duties that cannot wait for its next pass (engine.duties). On a connection of its own, from any one thread."""
        self._ticks.run(lambda store: duties(store, roll=random.random))

    def progress(self, lease: Lease, current: int, total: int | None, message: str | None) -> None:
        self._reports.run(lambda store: reports.progress(store, lease, current, total, message))

    def checkpoint(self, lease: Lease, data_json: str, cursor: str | None) -> None:
        self._reports.run(lambda store: reports.checkpoint(store, lease, data_json, cursor))

    def output(self, lease: Lease, data_json: str) -> None:
        self._reports.run(lambda store: reports.output(store, lease, data_json))

    def logs(self, lease: Lease, lines: Sequence[LogLine]) -> None:
        self._reports.run(lambda store: reports.logs(store, lease, lines))

    def children(self, lease: Lease, jobs: Sequence[JobSpec]) -> list[Enqueued]:
        return self._reports.run(lambda store: reports.children(store, self._project_id, lease, jobs))

    def parents(self, lease: Lease) -> list[ParentResult]:
        return self._reports.run(lambda store: reports.all_parents(store, lease))

    def release_strays(self, held: Collection[str]) -> int:
        def release(store: Any) -> int:
            with store.transaction():
                strays = [lease for lease in store.leases_of(self._project_id, self._worker_id, STRAYS) if lease.job_id not in held]
                leased = store.leased(strays) if strays else []
                return len(settles.end_leased(store, leased, Event.RELEASE, roll=random.random))

        return self._claims.run(release)

    def deregister(self) -> None:
        try:
            self._acks.run(lambda store: workers.deregister(store, self._project_id, self._worker_id, roll=random.random))
        except NotFound:
            return  # pruned, or deleted by hand: gone is what was wanted

    def close(self) -> None:
        self._closing.set()
        for link in (self._claims, self._acks, self._beats, self._reports, self._ticks):
            link.close()
        for end in (self._awaited, self._waker):
            os.close(end)
        self._awaited = self._waker = -1

    def _hush(self) -> None:
        try:
            os.read(self._awaited, 4096)
        except BlockingIOError:
            return  # nobody has called

    def _doze(self, store: Sleepers, known: ClaimRequest) -> None:
        self._asleep = True  # first: whoever rings takes our flag away again, and may do it before the answer is here
        try:
            store.sleep(known.project_id, known.worker_id, known.queues)
        except psycopg.Error:
            self._asleep = False
            raise

    def _prepare_claims(self, conn: psycopg.Connection[Any]) -> None:
        self._asleep = False
        conn.execute(CLAIM_SESSION)
        conn.execute(f"listen tidemill_{uuid.UUID(self._worker_id).hex}".encode())
        conn.add_notify_handler(self._rung)

    def _prepare_beats(self, conn: psycopg.Connection[Any]) -> None:
        conn.execute(f"listen tidemill_word_{uuid.UUID(self._worker_id).hex}".encode())
        conn.add_notify_handler(lambda _: self._heed())  # what comes during a beat may be younger than what the beat saw

    def _listen(self) -> None:
        while not self._closing.is_set():
            if self._beats.conn is None:
                try:
                    self._beats.run(lambda store: store.clock(now=None))  # connects
                except TidemillError:
                    self._closing.wait(WORD_WAIT_SECS)
            elif self._beats.await_word(WORD_WAIT_SECS):
                self._heed()

    def _rung(self, _: psycopg.Notify) -> None:
        self._asleep = False  # whoever rang has taken our flag away

    def _wait(self, timeout_s: float) -> None:
        conn = self._claims.conn
        if conn is None or timeout_s <= 0:
            return
        try:
            readable, _, _ = select.select([conn.fileno(), self._awaited], [], [], timeout_s)
            if self._awaited in readable:
                self._hush()  # a notification is read by the claim that follows
        except OSError as error:
            raise Unavailable("the database connection is gone") from error


def _project(found: list[tuple[str, str]], wanted: str | None) -> str:
    if len(found) == 1:
        return found[0][0]
    if wanted is not None:
        raise NotFound("project", wanted)
    raise Invalid(
        [], "the database holds no project: create one" if not found else "the database holds several projects: say which with --project"
    )


def _uuid7() -> str:
    """A UUIDv7 (RFC 9562 §5.7): 48 bits of milliseconds, then chance."""
    value = (int(time.time() * 1000) & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62))
