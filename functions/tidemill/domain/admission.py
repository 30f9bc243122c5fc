"""What decides how many jobs may run, and how fast: standing limits and rate classes (API.md §4)."""

from __future__ import annotations

from typing import Literal, NamedTuple

OnSaturated = Literal["queue", "cancel_running"]


class RateClass(NamedTuple):
    """A bucket of `burst` tokens that gains `per_window` every `window_ms`; a job costs its weight. Paused: null = as it is (new: not)."""

    name: str
    per_window: int
    window_ms: int
    burst: int
    is_paused: bool | None = None


class StandingLimit(NamedTuple):
    """At most `max_concurrent` jobs of a queue, or of a job type, claimed and running; exactly one of the two is given."""

    name: str
    max_concurrent: int
    queue: str | None = None
    job_type: str | None = None
    on_saturated: OnSaturated = "queue"
