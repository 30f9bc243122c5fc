"""How long a worker rests that found nothing: soon again at gates, which ring nobody when they open; till the bell rings elsewhere."""

import select
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from harness.mill import Mill, ack_of, lease_of
from tidemill.domain.errors import Unavailable
from tidemill.domain.jobs import Ack, Heartbeat, Registration
from tidemill.domain.transitions import Event
from tidemill.engine import settle as settles
from tidemill.runner.sources.postgres import LULL_SECS, MANY, PostgresSource
from tidemill.store.sleepers import Sleepers


@pytest.fixture
def source(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> PostgresSource:
    made = PostgresSource(mill.dsn, mill.project_id)
    made.register(Registration("w", ["default"]))
    return made


def rests(source: PostgresSource, monkeypatch: pytest.MonkeyPatch, times: int) -> list[float]:
    """What it waits for after each claim that brings nothing; the first of them only says that it sleeps."""
    waited: list[float] = []
    monkeypatch.setattr(source, "_wait", waited.append)
    for _ in range(times + 1):
        assert source.claim(1) == []
        source.rest(0.9)
    return waited


def test_a_worker_at_a_gate_rests_twice_as_long_each_time(mill: Mill, source: PostgresSource, monkeypatch: pytest.MonkeyPatch) -> None:
    mill.enqueue_all([{"concurrency": {"limit": 1, "key": "k"}}] * 3)
    with closing(source):
        (job,) = mill.claim(1)
        waits = rests(source, monkeypatch, 8)
        assert waits == [min(0.9, LULL_SECS * 2**n) for n in range(8)]
        mill.complete(job)
        assert len(source.claim(1)) == 1
        assert rests(source, monkeypatch, 2) == [LULL_SECS, 2 * LULL_SECS]


def test_a_worker_at_a_queue_without_gates_rests_until_it_is_rung(source: PostgresSource, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(source):
        assert rests(source, monkeypatch, 3) == [0.9] * 3


def put_keyed(mill: Mill, count: int, **more: Any) -> None:
    mill.enqueue_all([{"concurrency": {"limit": 1, "key": f"k{n}"}, **more} for n in range(count)])


def is_called(source: PostgresSource) -> bool:
    """Whether a rest would end at once."""
    return bool(select.select([source._awaited], [], [], 0)[0])


def test_who_took_many_and_left_nothing_rests_at_once_and_briefly(
    mill: Mill, source: PostgresSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(source, "_wait", waited.append)
    put_keyed(mill, MANY)
    with closing(source):
        assert len(source.claim(2 * MANY)) == MANY
        assert source.is_spent
        source.rest(0.9)
        assert waited == [LULL_SECS]
        assert mill.count("queue_sleepers") == 0, "for so short a rest nobody need ring"
        assert source.claim(2 * MANY) == []
        assert not source.is_spent
        source.rest(0.9)
        assert mill.count("queue_sleepers") == 1, "the next one may be long"
        assert waited == [LULL_SECS]


@pytest.mark.parametrize(("jobs", "limit"), [(MANY - 1, 2 * MANY), (MANY + 1, MANY)], ids=["few were taken", "some were left"])
def test_a_claim_of_few_or_one_that_left_some_is_followed_by_another(mill: Mill, source: PostgresSource, jobs: int, limit: int) -> None:
    put_keyed(mill, jobs)
    with closing(source):
        assert len(source.claim(limit)) == min(jobs, limit)
        assert not source.is_spent


@pytest.mark.parametrize("plain_priority", [-5, 5])
@pytest.mark.parametrize("limit", [MANY + 10, MANY], ids=["all were asked", "room for one queue"])
def test_jobs_of_another_queue_do_not_wait_because_one_queue_is_spent(mill: Mill, plain_priority: int, limit: int) -> None:
    mill.queue("plain", priority=plain_priority)
    put_keyed(mill, MANY)
    mill.enqueue_all([{"queue": "plain"}] * 200)
    source = PostgresSource(mill.dsn, mill.project_id)
    source.register(Registration("w", ["default", "plain"]))
    with closing(source):
        assert len(source.claim(limit)) == limit
        assert not source.is_spent


def test_own_acks_end_a_rest_at_gates_and_nowhere_else(mill: Mill, source: PostgresSource) -> None:
    with closing(source):
        mill.new()
        (job,) = source.claim(1)
        source.settle([ack_of(job, Event.COMPLETE)])
        assert not is_called(source), "what a plain queue has for us, an ack does not change"
        mill.enqueue_all([{"concurrency": {"limit": 1, "key": "k"}}] * 2)
        (job,) = source.claim(9)
        source.settle([ack_of(job, Event.COMPLETE)])
        assert is_called(source)
        assert len(source.claim(9)) == 1
        assert not is_called(source), "the claim has seen what the ack left"


def test_in_hand_is_what_neither_an_ack_nor_a_lost_lease_has_ended(
    mill: Mill, source: PostgresSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unanswered(store: Any, acks: Sequence[Ack], **how: Any) -> Any:
        settle(store, acks, **how)
        raise Unavailable("the answer is lost")

    put_keyed(mill, 4)
    settle = settles.settle
    with closing(source):
        done, released, lost, kept = source.claim(9)
        acks = [ack_of(done, Event.COMPLETE), ack_of(released, Event.RELEASE)]
        with monkeypatch.context() as patch, pytest.raises(Unavailable):
            patch.setattr(settles, "settle", unanswered)
            source.settle(acks)
        assert len(source._in_hand) == 4
        source.settle(acks)
        source.settle(acks)
        assert source._in_hand == {lost.lease_token, kept.lease_token}
        mill.lapse(lost.job_id)
        mill.reap()
        answer = source.heartbeat(Heartbeat([lease_of(lost), lease_of(kept)]))
        assert list(answer.lost) == [lost.job_id]
        assert source._in_hand == {kept.lease_token}


def test_a_ring_that_comes_while_a_worker_lies_down_is_heard(mill: Mill, source: PostgresSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took the ring for one from before and believed itself asleep, where nobody rang it any more: each job waited for the next poll."""
    lie_down, others = Sleepers.sleep, mill.another()

    def rung(store: Any, project_id: str, worker_id: str, queues: Sequence[str]) -> None:
        lie_down(store, project_id, worker_id, queues)
        if not others.count("jobs"):
            others.new()
            assert others.count("queue_sleepers") == 0
            store._conn.execute("select 1")  # brings the ring

    monkeypatch.setattr(Sleepers, "sleep", rung)
    with closing(source):
        assert source.claim(9) == []
        source.rest(0.9)
        assert len(source.claim(9)) == 1
        source.rest(0.9)
        assert mill.count("queue_sleepers") == 1


def test_a_rest_ends_for_a_lane_that_comes_due_and_not_for_the_looks_at_busy_limits(mill: Mill, source: PostgresSource) -> None:
    """Each busy lane is looked at every few seconds, in case nobody told of its place: of a thousand one was always next."""
    mill.enqueue_all([{"concurrency": {"limit": 1, "key": "busy"}}] * 2)
    with closing(source):
        assert len(mill.claim(2)) == 1
        assert mill.claim(2) == []
        mill.conn.execute("update tidemill.queue_lanes set look_at = now() + interval '2 seconds'")
        next_due = ("default",), 60.0
        assert source._claims.run(lambda store: store.next_due_secs(mill.project_id, *next_due)) is None
        mill.new(concurrency={"limit": 1, "key": "later"}, delay_ms=30_000)
        assert mill.claim(2) == []  # brings it to its lane
        due_secs = source._claims.run(lambda store: store.next_due_secs(mill.project_id, *next_due))
        assert due_secs is not None
        assert 2 < due_secs <= 30
