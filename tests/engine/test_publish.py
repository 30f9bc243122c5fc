"""The figures of all projects go out once a minute, and each counted minute once."""

import pytest

from harness.databases import Databases
from harness.mill import T0, M, Mill, S
from tidemill.domain.figures import Figures
from tidemill.engine.fold import Folding, sample
from tidemill.engine.publish import publish


@pytest.fixture(scope="module")
def databases(quiet_databases: Databases) -> Databases:
    """What is counted waits until all transactions of the server that may still add to it are over."""
    return quiet_databases


def passed(mill: Mill, at: object) -> list[Figures]:
    told: list[Figures] = []
    folding = Folding(mill.store, now=at)
    folding.mark()
    while folding.step().get("more"):
        pass
    sample(mill.store, now=at)
    publish(mill.store, told.append, now=at)
    return told


def test_figures_tell_what_stands_and_what_happened(mill: Mill) -> None:
    mill.enqueue_all([{}] * 6 + [{"delay_ms": 3_600_000}], now=T0)
    jobs = mill.claim(4, now=T0 + S)
    mill.complete(jobs[0], now=T0 + 2 * S)
    mill.fail(jobs[1], retryable=False, now=T0 + 2 * S)
    (told,) = passed(mill, T0 + M + 10 * S)
    assert told == Figures(2, 1, 2, 70_000, 1, 0, 0, 7, 1, 1, 1, 5_000)


def test_minute_is_told_once_and_none_is_left_out(mill: Mill) -> None:
    arrived = []
    for second in range(0, 400, 20):
        mill.new(T0 + second * S)
        arrived += [figures.arrived for figures in passed(mill, T0 + second * S + 7 * S)]
    assert len(arrived) == 7
    arrived += [figures.arrived for figures in passed(mill, T0 + 9 * M)]
    assert sum(arrived) == 20


def test_figures_of_a_paused_queue_alarm_nobody(mill: Mill) -> None:
    mill.new(T0)
    mill.conn.execute("update tidemill.queues set is_paused = true")
    (told,) = passed(mill, T0 + M + 10 * S)
    assert (told.queued, told.oldest_queued_age_ms) == (0, 0)


def test_second_pass_of_the_minute_tells_nothing(mill: Mill) -> None:
    assert len(passed(mill, T0)) == 1
    assert passed(mill, T0 + 30 * S) == []
    assert len(passed(mill, T0 + M)) == 1
