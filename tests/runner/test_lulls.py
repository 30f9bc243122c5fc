"""How long a worker rests that found nothing: soon again at gates, which ring nobody when they open; till the bell rings elsewhere."""

from contextlib import closing

import pytest

from harness.mill import Mill
from tidemill.domain.jobs import Registration
from tidemill.runner.sources.postgres import LULL_SECS, PostgresSource


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
