"""How long a failed attempt waits before the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tidemill.domain import limits


class Strategy(StrEnum):
    """How the wait grows with the attempts made."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A job's rule for retries. Delays in ms; `max_attempts` includes the first."""

    strategy: Strategy = Strategy.EXPONENTIAL
    base_delay_ms: int = 5_000
    multiplier: float = 2.0
    max_delay_ms: int = 3_600_000
    max_attempts: int = limits.DEFAULT_MAX_ATTEMPTS
    jitter: bool = True


DEFAULT: Final = RetryPolicy()


def delay_ms(policy: RetryPolicy, *, attempts: int, roll: float) -> int:
    """The wait in ms before attempt `attempts` + 1, given `attempts` ≥ 1 made (API.md §2).

    fixed: base; linear: base·n; exponential: base·multiplier^(n−1); capped at `max_delay_ms`, which no n overflows.
    `roll` in [0, 1) draws the jitter: uniform in [d/2, d].
    """
    cap = min(policy.max_delay_ms, limits.BACKOFF_MS)
    match policy.strategy:
        case Strategy.FIXED:
            full = float(policy.base_delay_ms)
        case Strategy.LINEAR:
            full = float(policy.base_delay_ms) * attempts
        case Strategy.EXPONENTIAL:
            full = _grown(policy.base_delay_ms, policy.multiplier, attempts - 1, cap)
    full = min(full, float(cap))
    return int(full / 2 + full / 2 * roll) if policy.jitter else int(full)


def merged(base: RetryPolicy, inline: Mapping[str, Any] | None) -> RetryPolicy:
    """`base` with the fields of a job's inline policy laid over it; values out of bounds are drawn to the bound."""
    if not inline:
        return base

    def number(name: str, low: float, high: float, default: float) -> float:
        value = inline.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
            return default
        return min(max(value, low), high)  # an integer of any size compares; only made a float would it overflow

    strategy = inline.get("strategy")
    return RetryPolicy(
        strategy=Strategy(strategy) if isinstance(strategy, str) and strategy in set(Strategy) else base.strategy,
        base_delay_ms=int(number("base_delay_ms", 0, limits.BACKOFF_MS, base.base_delay_ms)),
        multiplier=float(number("multiplier", *limits.MULTIPLIER, base.multiplier)),
        max_delay_ms=int(number("max_delay_ms", 0, limits.BACKOFF_MS, base.max_delay_ms)),
        max_attempts=int(number("max_attempts", *limits.MAX_ATTEMPTS, base.max_attempts)),
        jitter=bool(inline.get("jitter", base.jitter)),
    )


def _grown(base: int, multiplier: float, times: int, cap: int) -> float:
    """base·multiplier^times, stopping at `cap` so that no power overflows."""
    grown = float(base)
    if base == 0 or multiplier <= 1.0:
        return grown
    for _ in range(times):
        grown *= multiplier
        if grown >= cap:
            return float(cap)
    return grown
