"""A random history of all verbs by several workers, with crashes and clock moves, against a small model in memory.

After every step the database and the model must agree on each job's state, attempts, fence, priority, due time and history, and on
who holds which key. PROOF_SCALE=20 runs it longer, with fresh randomness, and shrinks what it finds.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from harness.databases import Databases
from harness.mill import FIXED, T0, Mill, S, ack_of, failure, opened, scaled
from harness.model import Model, ModelError
from tidemill.domain.errors import LeaseLost, TidemillError
from tidemill.domain.jobs import Ack, Edit, Lease
from tidemill.domain.transitions import Event
from tidemill.engine import claim as claims
from tidemill.engine import report
from tidemill.engine.operate import cancel, delete, edit, promote, reschedule, retry
from tidemill.engine.prune import prune

TABLES = "jobs, job_queue_entries, job_leases, job_executions, unique_holds, dead_letter_queue, job_logs, queue_levels"
RETENTION = (
    "update tidemill.queues set retention_completed_ms = 600000, retention_cancelled_ms = 600000, retention_dead_letter_ms = 1200000"
)
SEEN = """
select s.id::text, s.status::text, s.attempt_count, s.fence, s.priority, s.run_at,
       array(select x.status::text from tidemill.job_executions x where x.job_id = s.id order by x.fence)
from tidemill.job_states s
"""
picks = st.integers(0, 40)
TICK = S / 1_000
OUTCOMES: list[tuple[Event, dict[str, Any]]] = [
    (Event.COMPLETE, {}),
    (Event.COMPLETE, {"result": "1"}),
    (Event.FAIL, {"failure": failure()}),
    (Event.FAIL, {"failure": failure(), "retryable": False}),
    (Event.FAIL, {"failure": failure(), "retry_delay_ms": 5_000}),
    (Event.CRASH, {"failure": failure()}),
    (Event.SNOOZE, {"delay_ms": 30_000}),
    (Event.RELEASE, {}),
    (Event.ACK_CANCELLED, {}),
]
mill: Mill


class AnyHistory(RuleBasedStateMachine):
    """Rules call the verb and the model; both must answer alike."""

    @initialize()
    def begin(self) -> None:
        mill.conn.execute(f"truncate tidemill.{TABLES.replace(', ', ', tidemill.')}".encode())
        self.now = T0
        self.model = Model()
        self.workers = [mill, *mill.others[:2]]
        self.tokens: list[Lease] = []  # every lease that was ever given, also to those who crashed
        self.said: list[tuple[Ack, bool]] = []

    def job_id(self, pick: int) -> str:
        ids = list(self.model.jobs)
        return ids[pick % len(ids)] if ids else "00000000-0000-0000-0000-000000000000"

    def both(self, verb: Callable[[], Any], modelled: Callable[[], Any]) -> None:
        """Calls both; the same answer or the same refusal."""
        try:
            expected: Any = modelled()
        except ModelError as error:
            expected = error.code
        try:
            found: Any = verb()
        except TidemillError as error:
            found = error.code
        assert found == expected, (found, expected)

    @rule(
        key=st.none() | st.integers(0, 1),
        window=st.sampled_from(["running", "pending", "ttl"]),
        hold=st.sampled_from([False, False, True]),
        delay=st.sampled_from([0, 0, 0, 60]),
        priority=st.integers(0, 1),
        most=st.integers(1, 3),
        idempotent=st.sampled_from([False, False, False, True]),
    )
    def enqueue(self, key: int | None, window: str, hold: bool, delay: int, priority: int, most: int, idempotent: bool) -> None:
        spec: dict[str, Any] = {
            "payload": key,
            "priority": priority,
            "max_attempts": most,
            "retry_policy": FIXED,
            "hold": hold,
            "delay_ms": delay * 1_000,
        }
        if idempotent:  # the same request each time, with a unique key in every other one
            spec = {"payload": key, "max_attempts": 2, "retry_policy": FIXED, "idempotency_key": f"i{key}"}
            window, hold, delay, priority, most = "running", False, 0, 0, 2
        ttl_ms = 120_000 if window == "ttl" else None
        if key is not None:
            spec["unique"] = {"window": window, **({"ttl_ms": ttl_ms} if ttl_ms else {})}
        self.now += TICK  # ids rise with it, so that a history runs the same way each time
        (made,) = mill.enqueue_all([spec], now=self.now)
        assert made.job_id is not None
        holder = self.model.holder(key, spec.get("idempotency_key"), self.now)
        assert made.deduplicated is (holder is not None)
        if holder is None:
            how = {"key": key, "window": window, "ttl": 120 * S if ttl_ms else None, "held": hold, "priority": priority, "most": most}
            self.model.enqueue(made.job_id, run_at=self.now + delay * S, now=self.now, **how)
        else:
            assert made.job_id == holder
        self.model.remember(spec.get("idempotency_key"), made.job_id)
        assert made.state == self.model.state(made.job_id, self.now)

    @rule(worker=st.integers(0, 2), limit=st.integers(1, 3), start=st.booleans())
    def claim(self, worker: int, limit: int, start: bool) -> None:
        jobs = self.workers[worker].claim(limit, start=start, now=self.now)
        expected = self.model.next(limit, self.now)
        assert [job.job_id for job in jobs] == expected
        for job in jobs:
            assert Lease(job.job_id, job.lease_token) not in self.tokens
            attempt, fence = self.model.claim(job.job_id, job.lease_token, start=start, now=self.now)
            assert (job.attempt, job.fence, job.lease_expires_at) == (attempt, fence, self.now + 30 * S)
            self.tokens.append(Lease(job.job_id, job.lease_token))

    def lease(self, pick: int) -> Lease:
        return self.tokens[-1 - pick % min(len(self.tokens), 8)]  # the latest ones, live or not

    @precondition(lambda self: self.tokens)
    @rule(pick=picks)
    def start(self, pick: int) -> None:
        lease = self.lease(pick)
        self.both(lambda: claims.start(mill.store, lease, now=self.now) and "running", lambda: self.model.start(lease))

    @precondition(lambda self: self.tokens)
    @rule(some=st.lists(picks, min_size=1, max_size=3), worker=st.integers(0, 2))
    def heartbeat(self, some: list[int], worker: int) -> None:
        leases = list(dict.fromkeys(self.lease(pick) for pick in some))
        if len({lease.job_id for lease in leases}) < len(leases):
            return
        answer = self.workers[worker].beat(*leases, now=self.now)
        kept = {lease: self.model.beat(lease, self.now) for lease in leases}
        assert {b.job_id: b.lease_expires_at for b in answer.leases} == {lease.job_id: k[0] for lease, k in kept.items() if k}
        assert sorted(answer.lost) == sorted(lease.job_id for lease, k in kept.items() if not k)
        assert sorted(answer.cancel) == sorted(lease.job_id for lease, k in kept.items() if k and k[1])

    @precondition(lambda self: self.tokens)
    @rule(some=st.lists(st.tuples(picks, st.sampled_from(OUTCOMES)), min_size=1, max_size=3))
    def ack(self, some: list[tuple[int, tuple[Event, dict[str, Any]]]]) -> None:
        said = {self.lease(pick): outcome for pick, outcome in some}
        acks = [ack_of(lease, event, **values) for lease, (event, values) in said.items()]
        results = mill.settle(acks, now=self.now)
        for ack, result in zip(acks, results, strict=True):
            repeats = any(old.job_id == ack.job_id and old.lease_token == ack.lease_token and old.digest == ack.digest and applied
                          for old, applied in self.said)  # fmt: skip
            state = self.model.ack(ack, self.now)
            assert (result.status == "ok") is (state is not None or (repeats and ack.job_id in self.model.jobs)), (ack, result)
            if state and state not in ("scheduled", "queued"):
                assert result.state == state
            self.said.append((ack, state is not None))

    @precondition(lambda self: self.said)
    @rule(pick=picks)
    def say_again(self, pick: int) -> None:
        ack, applied = self.said[-1 - pick % min(len(self.said), 10)]
        (result,) = mill.settle([ack], now=self.now)
        assert (result.status == "ok") is (applied and ack.job_id in self.model.jobs)

    @precondition(lambda self: self.said)
    @rule(pick=picks, outcome=st.sampled_from(OUTCOMES))
    def contradict(self, pick: int, outcome: tuple[Event, dict[str, Any]]) -> None:
        old, applied = self.said[-1 - pick % min(len(self.said), 10)]
        ack = ack_of(Lease(old.job_id, old.lease_token), outcome[0], **outcome[1])
        if applied and ack.digest != old.digest:
            assert mill.settle([ack], now=self.now)[0].status == "lease_lost"

    @precondition(lambda self: self.tokens)
    @rule(pick=picks, children=st.booleans())
    def report(self, pick: int, children: bool) -> None:
        self.now += TICK
        lease = self.lease(pick)
        live = self.model.lease(lease) is not None
        try:
            if children:
                (made,) = report.children(mill.store, mill.project_id, lease, [{"job_type": "t", "max_attempts": 1}], now=self.now)
                assert made.job_id is not None
                self.model.enqueue(made.job_id, run_at=self.now, most=1, now=self.now)
            else:
                report.progress(mill.store, lease, pick, now=self.now)
            assert live
        except LeaseLost:
            assert not live

    @rule(pick=picks, force=st.booleans())
    def cancel(self, pick: int, force: bool) -> None:
        job_id = self.job_id(pick)
        self.both(
            lambda: cancel(mill.store, mill.project_id, job_id, force=force, roll=mill.roll, now=self.now).value,
            lambda: self.model.cancel(job_id, force=force, now=self.now),
        )

    @rule(pick=picks)
    def retry(self, pick: int) -> None:
        job_id = self.job_id(pick)
        self.both(lambda: retry(mill.store, mill.project_id, job_id, now=self.now).value, lambda: self.model.retry(job_id, self.now))

    @rule(pick=picks)
    def promote(self, pick: int) -> None:
        job_id = self.job_id(pick)
        self.both(lambda: promote(mill.store, mill.project_id, job_id, now=self.now).value, lambda: self.model.promote(job_id, self.now))

    @rule(pick=picks, secs=st.sampled_from([-100, 0, 50]))
    def reschedule(self, pick: int, secs: int) -> None:
        job_id, at = self.job_id(pick), self.now + secs * S
        self.both(
            lambda: reschedule(mill.store, mill.project_id, job_id, at, now=self.now).value,
            lambda: self.model.reschedule(job_id, at, self.now),
        )

    @rule(pick=picks, priority=st.integers(0, 2))
    def edit(self, pick: int, priority: int) -> None:
        job_id = self.job_id(pick)
        self.both(
            lambda: edit(mill.store, mill.project_id, job_id, Edit(priority=priority), now=self.now).value,
            lambda: self.model.edit(job_id, priority, self.now),
        )

    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        job_id = self.job_id(pick)
        self.both(lambda: delete(mill.store, mill.project_id, job_id), lambda: self.model.delete(job_id, self.now))

    @rule()
    def reap(self) -> None:
        assert mill.reap(now=self.now).expired == self.model.reap(self.now)

    @rule()
    def prune(self) -> None:
        counts = prune(mill.store, now=self.now)
        assert (counts["jobs"], counts["unique_keys"]) == self.model.prune(self.now)

    @rule(secs=st.sampled_from([1, 10, 31, 61, 130, 700]))
    def wait(self, secs: int) -> None:
        self.now += secs * S

    @invariant()
    def database_and_model_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        seen = {row[0]: row[1:] for row in mill.conn.execute(SEEN)}
        expected = {job_id: self.model.seen(job_id, self.now) for job_id in self.model.jobs}
        by_clock = {"scheduled", "queued"}
        for job_id, (status, attempts, fence, priority, run_at, history) in list(seen.items()):
            if status in by_clock:
                status = "scheduled" if run_at > self.now else "queued"
            due = run_at if status in (*by_clock, "pending") else None
            seen[job_id] = (status, attempts, fence, priority, due, history)
        assert seen == expected
        keys = {row[0] for row in mill.conn.execute("select distinct job_id::text from tidemill.unique_holds")}
        assert keys == self.model.key_holders()
        assert mill.misplaced() == []


@pytest.fixture
def one_mill(databases: Databases) -> Any:
    global mill
    dsn = databases.clone()
    with opened(dsn) as mill:
        mill.another(), mill.another()
        mill.conn.execute(RETENTION.encode())
        yield mill
    databases.drop(dsn)


@pytest.mark.timeout(900 * scaled(1))
def test_any_history_of_all_verbs_is_the_models(one_mill: Mill) -> None:
    fresh = scaled(1) > 1
    how = settings(
        max_examples=scaled(12), stateful_step_count=60, deadline=None, derandomize=not fresh, database=None,
        suppress_health_check=list(HealthCheck),
        phases=list(Phase) if fresh else [Phase.generate],
    )  # fmt: skip
    run_state_machine_as_test(AnyHistory, settings=how)
