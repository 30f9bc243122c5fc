"""Keeps ECS from ending this task for a smaller service while it holds leases: the agent's task protection endpoint.

Without an agent (anywhere but on ECS) nothing is asked. A failure is logged and nothing else: SIGTERM drains a worker in any case.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Final
from urllib.error import URLError

from tidemill.runner.log import Log

ANSWER_SECS: Final = 3.0
Put = Callable[[str, bytes], None]


class Protection:
    """Told with every heartbeat whether leases are held. agent: ECS_AGENT_URI. minutes: for how long without a word from us."""

    def __init__(self, agent: str, minutes: int, log: Log, *, put: Put | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = f"{agent.rstrip('/')}/task-protection/v1/state"
        self._minutes, self._log, self._clock = minutes, log, clock
        self._put = put or _put
        self._is_on = False
        self._said_at = 0.0

    def tell(self, holds_leases: bool) -> None:
        """Asks for protection, renews it after half its time, or gives it up; nothing where nothing changes."""
        half_gone = self._clock() - self._said_at > self._minutes * 30
        if holds_leases == self._is_on and not (holds_leases and half_gone):
            return
        wanted = {"ProtectionEnabled": holds_leases, **({"ExpiresInMinutes": self._minutes} if holds_leases else {})}
        try:
            self._put(self._url, json.dumps(wanted).encode())
        except (URLError, OSError, ValueError) as error:
            self._log.warning("task_protection_failed", code=type(error).__name__, wanted=holds_leases)
            return
        self._is_on, self._said_at = holds_leases, self._clock()


def _put(url: str, body: bytes) -> None:
    import urllib.request

    request = urllib.request.Request(  # noqa: S310 - the agent's own address
        url, data=body, method="PUT", headers={"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=ANSWER_SECS):  # noqa: S310 - as above
        pass
