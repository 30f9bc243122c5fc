"""A doorbell between two threads."""

from __future__ import annotations

import threading


class Bell:
    """One thread waits, any may ring, signal handlers included. A ring while nobody waits ends the next wait at once; many are one."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()

    def ring(self) -> None:
        """Ends the wait that is on, or the next one."""
        if self._gate.locked():
            try:
                self._gate.release()
            except RuntimeError:
                return  # somebody else was quicker

    def wait(self, timeout_s: float | None = None) -> bool:
        """True if it was rung within the time (None = for ever)."""
        return self._gate.acquire(timeout=-1 if timeout_s is None else max(0.0, timeout_s))
