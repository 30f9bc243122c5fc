"""The loop without a database: how much is claimed, when, and what an outage of either side does to it."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.clock import allowed
from harness.jobs import PAUSE
from harness.working import Lines, eventually
from tidemill import App
from tidemill.domain.errors import Internal, TidemillError, Unauthenticated, Unavailable
from tidemill.domain.jobs import Ack, AckResult, ClaimedJob, Heartbeat, HeartbeatAnswer, Registered, Registration
from tidemill.domain.schedule import Spec
from tidemill.domain.transitions import Event
from tidemill.runner import Context
from tidemill.runner.log import Log
from tidemill.runner.options import WorkerOptions
from tidemill.runner.worker import Worker


class Scripted:
    """A source that has `stock` jobs and notes what is asked of it."""

    def __init__(self, stock: int, job_type: str = "t") -> None:
        self.left = stock
        self.job_type = job_type
        self.claims: list[int] = []
        self.is_spent = False
        self.batches: list[list[Ack]] = []
        self.released: list[str] = []
        self.before_claim: Callable[[], None] = lambda: None
        self.before_settle: Callable[[Sequence[Ack]], None] = lambda acks: None
        self.rested = threading.Event()
        self._bell = threading.Event()

    def register(self, registration: Registration) -> Registered:
        return Registered("w", 200, registration.lease_ms)

    def claim(self, limit: int) -> list[ClaimedJob]:
        self.before_claim()
        self.claims.append(limit)
        taken, self.left = min(limit, self.left), self.left - min(limit, self.left)
        return [job(self.job_type) for _ in range(taken)]

    def rest(self, timeout_s: float) -> None:
        self.rested.set()
        self._bell.wait(min(timeout_s, 0.05))

    def wake(self) -> None:
        self._bell.set()

    def settle(self, acks: Sequence[Ack]) -> list[AckResult]:
        self.before_settle(acks)
        self.batches.append(list(acks))
        return [AckResult(ack.job_id, "ok", "completed", None) for ack in acks]

    def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        return HeartbeatAnswer()

    def declare_schedules(self, declared_by: str, specs: Mapping[str, Spec]) -> Mapping[str, int]:
        return {}

    def on_word(self, heed: Any) -> None:
        pass

    def release_strays(self, held: Collection[str]) -> int:
        self.released.append(str(len(held)))
        return 0

    def deregister(self) -> None:
        pass

    def close(self) -> None:
        pass

    @property
    def acked(self) -> list[Ack]:
        return list(itertools.chain.from_iterable(self.batches))


def job(job_type: str) -> ClaimedJob:
    now = datetime.now(UTC)
    ids = str(uuid.uuid4()), str(uuid.uuid4())
    return ClaimedJob(*ids, job_type, "default", "{}", None, None, 1, 5, 1, now + timedelta(minutes=1), *[None] * 4, "q", 0, now)


class Running:
    """A worker on a scripted source, in a thread."""

    def __init__(self, source: Scripted, handler: Callable[[Context, Any], Any], **options: Any) -> None:
        app = App()
        app.job("t")(handler)
        self.lines = Lines()
        settings = {"concurrency": 4, "stop_window_secs": 5.0, **options}
        self.worker = Worker(app, source, WorkerOptions(**settings), Log("debug", self.lines))
        self.thread = threading.Thread(target=self.worker.run)

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.stop()
        self.thread.join(120)
        assert not self.thread.is_alive()


def test_short_jobs_are_claimed_by_the_batch_and_acked_by_the_batch() -> None:
    source = Scripted(20_000)
    with Running(source, lambda ctx, payload: None):
        eventually(lambda: len(source.acked) == 20_000)
    assert max(source.claims) == 500
    assert len(source.claims) < 400  # most of them full
    assert max(map(len, source.batches)) <= 500
    assert len({ack.job_id for ack in source.acked}) == 20_000


def test_long_jobs_are_claimed_one_per_free_place() -> None:
    source, gate = Scripted(100), threading.Event()
    with Running(source, lambda ctx, payload: gate.wait(120) and None) as running:
        eventually(lambda: len(running.worker.board.running) == 4)
        PAUSE.wait(0.3)
        assert 100 - source.left == 4
        gate.set()


def test_a_stock_is_kept_only_for_as_long_as_it_is_expected_to_take() -> None:
    """Jobs of 20 ms on 4 places: 0.05 s of them are 10."""
    source, most = Scripted(150), [0]

    def work(ctx: Context, payload: Any) -> None:
        PAUSE.wait(0.02)

    with Running(source, work) as running:

        def done() -> bool:
            most[0] = max(most[0], len(running.worker.board.ready))
            return len(source.acked) == 150

        eventually(done)
    assert most[0] <= 14


def test_the_next_batch_is_claimed_while_the_last_one_is_acked() -> None:
    source, in_settle, claimed_meanwhile = Scripted(5_000), threading.Event(), threading.Event()

    def slow(acks: Sequence[Ack]) -> None:
        if len(acks) > 100 and not in_settle.is_set():
            in_settle.set()
            assert claimed_meanwhile.wait(120)

    def note() -> None:
        if in_settle.is_set():
            claimed_meanwhile.set()

    source.before_settle, source.before_claim = slow, note
    with Running(source, lambda ctx, payload: None):
        eventually(lambda: len(source.acked) == 5_000)
    assert claimed_meanwhile.is_set()


def test_a_lone_jobs_ack_does_not_wait_for_company() -> None:
    source = Scripted(1)
    ended = [0.0, 0.0]
    import time

    def work(ctx: Context, payload: Any) -> None:
        ended[0] = time.perf_counter()

    def note(acks: Sequence[Ack]) -> None:
        ended[1] = time.perf_counter()

    source.before_settle = note
    with Running(source, work):
        eventually(lambda: source.acked)
    assert ended[1] - ended[0] < allowed(0.1)


@pytest.mark.parametrize("error", [Unavailable("away"), Unauthenticated("a key is being replaced"), RuntimeError("a bug")])
def test_acks_outlast_an_outage_unchanged_and_in_order(error: Exception) -> None:
    source, failures = Scripted(10), [2]
    tried: list[list[Ack]] = []

    def fail(acks: Sequence[Ack]) -> None:
        tried.append(list(acks))
        if failures[0]:
            failures[0] -= 1
            raise error

    source.before_settle = fail
    with Running(source, lambda ctx, payload: None, concurrency=1):
        eventually(lambda: len(source.acked) == 10)
    assert tried[0][0] == source.acked[0]
    assert len({ack.lease_token for ack in source.acked}) == 10


def test_a_claim_that_fails_is_tried_again_with_a_growing_wait_and_strays_are_asked_for() -> None:
    source, failures = Scripted(3), [4]

    def fail() -> None:
        if failures[0]:
            failures[0] -= 1
            raise Unavailable("away")

    source.before_claim = fail
    with Running(source, lambda ctx, payload: None) as running:
        eventually(lambda: len(source.acked) == 3)
    waits = [line["retry_in_ms"] for line in running.lines.named("claim_failed")]
    assert len(waits) == 4
    assert all(50 * 2**n <= wait <= 100 * 2**n for n, wait in enumerate(waits))
    assert len(source.released) == 4


def test_an_ack_that_is_always_refused_becomes_a_failure_and_then_is_given_up() -> None:
    source = Scripted(1)
    tried: list[Ack] = []

    def refuse(acks: Sequence[Ack]) -> None:
        tried.extend(acks)
        raise Internal("always")

    source.before_settle = refuse
    with Running(source, lambda ctx, payload: None) as running:
        eventually(lambda: len(running.lines.named("ack_impossible")) == 2)
        assert not running.worker.board.held
    assert [ack.event for ack in tried] == [Event.COMPLETE] * 3 + [Event.FAIL] * 3


def test_a_command_or_error_in_the_heart_does_not_stop_it() -> None:
    source, beats = Scripted(0), [0]

    def beat(_: Heartbeat) -> HeartbeatAnswer:
        beats[0] += 1
        if beats[0] == 1:
            raise RuntimeError
        if beats[0] == 2:
            raise Unavailable("away")
        return HeartbeatAnswer()

    source.heartbeat = beat
    with Running(source, lambda ctx, payload: None) as running:
        eventually(lambda: running.lines.named("heartbeats_resumed"))
    assert [line["code"] for line in running.lines.named("heartbeat_failed")] == ["RuntimeError", "unavailable"]


def test_a_registration_that_can_never_succeed_is_told_at_once() -> None:
    class Refusing(Scripted):
        def register(self, registration: Registration) -> Registered:
            raise Unauthenticated("no such key")

    worker = Worker(App(), Refusing(0), WorkerOptions(), Log("error", Lines()))
    with pytest.raises(TidemillError, match="no such key"):
        worker.run()
