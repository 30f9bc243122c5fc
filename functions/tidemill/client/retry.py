"""When a failed call is tried again, and when calls stop for a while. No I/O; clock and chance are handed in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidemill.client.problems import CircuitOpen

THRESHOLD: Final = 5


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Exponential backoff with full jitter (AWS Architecture Blog, "Exponential Backoff And Jitter"). Times in seconds.

    `retries` come on top of the first try. A `Retry-After` is waited out in full, then jittered; one longer than
    `longest_wait` is not waited for at all: the error goes to the caller with its `retry_after_secs`.
    """

    retries: int = 4
    base: float = 0.1
    cap: float = 5.0
    longest_wait: float = 30.0

    def wait(self, failures: int, retry_after: int | None, roll: float) -> float | None:
        """Seconds before the next try after `failures` ≥ 1 failed ones; None: no further try. `roll` in [0, 1)."""
        if failures > self.retries or (retry_after or 0) > self.longest_wait:
            return None
        drawn = min(self.cap, self.base * 2.0 ** min(failures - 1, 30)) * roll
        return drawn + (retry_after or 0)


class Breaker:
    """Stops calls to an API that is down. Thread-safe.

    Closed: calls go out. After `threshold` failures in a row it opens, and every call raises CircuitOpen at once. When
    the wait is over (5 s, or what `Retry-After` asked for; doubled after each failed probe, at most 60 s) it is half
    open: one call goes out as the probe while the others still fail fast. Its success closes the circuit.
    """

    def __init__(
        self,
        *,
        threshold: int = THRESHOLD,
        open_secs: float = 5.0,
        longest_secs: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threshold, self._first, self._longest, self._clock = threshold, open_secs, longest_secs, clock
        self._lock = threading.Lock()
        self._failures = 0
        self._open_secs = open_secs
        self._until: float | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        """True unless calls go out freely."""
        return self._until is not None

    def admit(self) -> None:
        """Lets a call out or raises CircuitOpen. Each admitted call ends in exactly one of the three methods below."""
        with self._lock:
            if self._until is None:
                return
            left = self._until - self._clock()
            if left > 0 or self._probing:
                raise CircuitOpen(retry_after_secs=max(1, round(left)))
            self._probing = True

    def succeeded(self) -> None:
        """The API answered: whatever the answer, it is up."""
        with self._lock:
            self._failures, self._until, self._probing, self._open_secs = 0, None, False, self._first

    def failed(self, retry_after: int | None = None) -> None:
        """The API was unavailable or did not answer."""
        with self._lock:
            self._failures += 1
            if self._probing:
                self._open_secs = min(self._longest, self._open_secs * 2)
            elif self._until is not None or self._failures < self._threshold:
                return
            self._probing = False
            self._until = self._clock() + min(self._longest, max(self._open_secs, retry_after or 0))

    def gave_up(self) -> None:
        """The call ended without telling anything about the API (interrupted, or no free connection here)."""
        with self._lock:
            self._probing = False
