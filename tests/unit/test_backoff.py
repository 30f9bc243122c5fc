"""Backoff: the published formulas, bounds for any n, jitter within [d/2, d]."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemill.domain import backoff, limits
from tidemill.domain.backoff import RetryPolicy, Strategy, delay_ms, merged

policies = st.builds(
    RetryPolicy,
    strategy=st.sampled_from(Strategy),
    base_delay_ms=st.integers(0, limits.BACKOFF_MS),
    multiplier=st.floats(*limits.MULTIPLIER),
    max_delay_ms=st.integers(0, limits.BACKOFF_MS),
    jitter=st.just(False),
)
rolls = st.floats(0, 1, exclude_max=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400) | st.just(-(10**400)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)
NAMES = ("strategy", "base_delay_ms", "multiplier", "max_delay_ms", "max_attempts", "jitter")


def plain(**values: Any) -> RetryPolicy:
    return RetryPolicy(**{"jitter": False, "max_delay_ms": 10**9, **values})


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        (plain(strategy=Strategy.FIXED, base_delay_ms=100), [100, 100, 100, 100]),
        (plain(strategy=Strategy.LINEAR, base_delay_ms=100), [100, 200, 300, 400]),
        (plain(base_delay_ms=100, multiplier=2.0), [100, 200, 400, 800]),
        (plain(base_delay_ms=100, multiplier=1.5), [100, 150, 225, 337]),
        (plain(base_delay_ms=100, multiplier=1.0), [100, 100, 100, 100]),
        (plain(base_delay_ms=100, multiplier=10.0, max_delay_ms=5_000), [100, 1_000, 5_000, 5_000]),
        (plain(base_delay_ms=0, multiplier=10.0), [0, 0, 0, 0]),
        (plain(strategy=Strategy.FIXED, base_delay_ms=100, max_delay_ms=40), [40, 40, 40, 40]),
        (plain(base_delay_ms=100, max_delay_ms=0), [0, 0, 0, 0]),
    ],
    ids=str,
)
def test_the_published_formulas(policy: RetryPolicy, waits: list[int]) -> None:
    assert [delay_ms(policy, attempts=n, roll=0.9) for n in (1, 2, 3, 4)] == waits


@given(policy=policies, attempts=st.integers(1, 10**6))
@example(policy=plain(base_delay_ms=1, multiplier=100.0), attempts=10**6)
@example(policy=plain(base_delay_ms=1, multiplier=2.0), attempts=71)
@example(policy=plain(strategy=Strategy.LINEAR, base_delay_ms=limits.BACKOFF_MS), attempts=10**6)
def test_b061_no_number_of_attempts_overflows_or_passes_the_cap(policy: RetryPolicy, attempts: int) -> None:
    wait = delay_ms(policy, attempts=attempts, roll=0)
    assert 0 <= wait <= min(policy.max_delay_ms, limits.BACKOFF_MS)
    assert wait >= delay_ms(policy, attempts=max(1, attempts - 1), roll=0)  # never shorter after one more attempt


@given(policy=policies, attempts=st.integers(1, 1_000), roll=rolls)
def test_jitter_draws_from_the_upper_half(policy: RetryPolicy, attempts: int, roll: float) -> None:
    full = delay_ms(policy, attempts=attempts, roll=roll)
    drawn = delay_ms(
        RetryPolicy(policy.strategy, policy.base_delay_ms, policy.multiplier, policy.max_delay_ms, jitter=True),
        attempts=attempts,
        roll=roll,
    )
    assert full // 2 <= drawn <= full


def test_jitter_reaches_both_ends() -> None:
    policy = RetryPolicy(Strategy.FIXED, 1_000)
    assert delay_ms(policy, attempts=1, roll=0.0) == 500
    assert delay_ms(policy, attempts=1, roll=0.999_999) == 999


@given(inline=st.dictionaries(st.sampled_from(NAMES), json_values))
@example(inline={"base_delay_ms": 10**400})
@example(inline={"max_attempts": 2.5, "strategy": ["fixed"]})
@example(inline={"max_attempts": float("inf"), "multiplier": float("nan")})
def test_any_inline_policy_whatever_is_in_it_gives_a_policy_within_the_bounds(inline: dict[str, Any]) -> None:
    policy = merged(backoff.DEFAULT, inline)
    assert isinstance(policy.strategy, Strategy)
    assert 0 <= policy.base_delay_ms <= limits.BACKOFF_MS
    assert 0 <= policy.max_delay_ms <= limits.BACKOFF_MS
    assert limits.MULTIPLIER[0] <= policy.multiplier <= limits.MULTIPLIER[1]
    assert limits.MAX_ATTEMPTS[0] <= policy.max_attempts <= limits.MAX_ATTEMPTS[1]
    assert isinstance(policy.jitter, bool)


def test_an_inline_policy_lies_over_the_base_field_by_field() -> None:
    inline = json.loads('{"strategy": "linear", "base_delay_ms": 7, "jitter": false}')
    assert merged(backoff.DEFAULT, inline) == RetryPolicy(Strategy.LINEAR, 7, 2.0, 3_600_000, 5, False)
    assert merged(backoff.DEFAULT, None) is backoff.DEFAULT
