"""How long a worker waits for another side that does not answer."""

from __future__ import annotations

import random


class Patience:
    """Waits that double from `first_s` to `most_s`, drawn from the upper half; back to the first after a success."""

    def __init__(self, first_s: float = 0.1, most_s: float = 5.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self.failures = 0

    def failed(self) -> float:
        """Seconds to wait before the next try."""
        full = min(self._most_s, self._first_s * float(1 << min(self.failures, 20)))
        self.failures += 1
        return full * random.uniform(0.5, 1.0)

    def succeeded(self) -> bool:
        """True if there were failures before."""
        had, self.failures = self.failures > 0, 0
        return had
