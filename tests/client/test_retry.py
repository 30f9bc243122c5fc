"""The rule for further tries and the circuit breaker, on a clock of the test's own."""

import pytest

from tidemill.client.problems import CircuitOpen
from tidemill.client.retry import Breaker, RetryRule


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def failing(breaker: Breaker, times: int, retry_after: int | None = None) -> None:
    for _ in range(times):
        breaker.admit()
        breaker.failed(retry_after)


@pytest.mark.parametrize(
    ("failures", "roll", "wait"), [(1, 0.5, 0.05), (2, 0.5, 0.1), (3, 1.0, 0.4), (4, 0.0, 0.0), (30, 0.5, 2.5), (5_000, 0.5, 2.5)]
)
def test_wait_doubles_up_to_the_cap_and_is_drawn_from_zero(failures: int, roll: float, wait: float) -> None:
    assert RetryRule(retries=10_000).wait(failures, None, roll) == pytest.approx(wait)


def test_retry_after_is_waited_out_before_the_jitter() -> None:
    assert RetryRule().wait(1, 7, 0.5) == pytest.approx(7.05)


def test_no_further_try_after_the_last_or_for_a_long_retry_after() -> None:
    assert RetryRule(retries=2).wait(2, None, 0.5) is not None
    assert RetryRule(retries=2).wait(3, None, 0.5) is None
    assert RetryRule().wait(1, 31, 0.5) is None


def test_breaker_opens_after_failures_in_a_row_only(clock: Clock) -> None:
    breaker = Breaker(threshold=3, clock=clock)
    failing(breaker, 2)
    breaker.admit()
    breaker.succeeded()
    failing(breaker, 2)
    assert not breaker.is_open
    failing(breaker, 1)
    with pytest.raises(CircuitOpen) as caught:
        breaker.admit()
    assert (caught.value.retry_after_secs, caught.value.maybe_applied) == (5, False)


def test_half_open_breaker_lets_one_probe_out_and_its_success_closes(clock: Clock) -> None:
    breaker = Breaker(threshold=1, clock=clock)
    failing(breaker, 1)
    clock.now += 5
    breaker.admit()
    with pytest.raises(CircuitOpen):
        breaker.admit()
    breaker.succeeded()
    breaker.admit()
    breaker.admit()


def test_failed_probe_opens_for_twice_as_long_up_to_the_longest(clock: Clock) -> None:
    breaker = Breaker(threshold=1, open_secs=5, longest_secs=12, clock=clock)
    failing(breaker, 1)
    for wait in (5, 10, 12, 12):
        clock.now += wait - 0.1
        with pytest.raises(CircuitOpen):
            breaker.admit()
        clock.now += 0.1
        failing(breaker, 1)


def test_retry_after_keeps_the_circuit_open_that_long(clock: Clock) -> None:
    breaker = Breaker(threshold=1, clock=clock)
    failing(breaker, 1, retry_after=20)
    clock.now += 19
    with pytest.raises(CircuitOpen):
        breaker.admit()


def test_probe_that_was_interrupted_leaves_room_for_another(clock: Clock) -> None:
    breaker = Breaker(threshold=1, clock=clock)
    failing(breaker, 1)
    clock.now += 5
    breaker.admit()
    breaker.gave_up()
    breaker.admit()


def test_late_failures_of_calls_from_before_do_not_prolong_it(clock: Clock) -> None:
    breaker = Breaker(threshold=2, clock=clock)
    for _ in range(4):
        breaker.admit()
    breaker.failed()
    breaker.failed()
    clock.now += 4
    breaker.failed(60)
    clock.now += 1
    breaker.admit()
