"""Does the scheduler's duties between its passes, every second, in a thread of its own (`tidemill worker --tick`)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from tidemill.domain.errors import TidemillError
from tidemill.runner.backoff import Patience
from tidemill.runner.bell import Bell
from tidemill.runner.log import Log

SPREAD_SECS: Final = 0.02


class Ticker:
    """One thread; just behind each full second, since that is when schedules are due. Whether they are, the database's clock decides."""

    def __init__(self, duties: Callable[[], object], log: Log) -> None:
        self._duties = duties
        self._log = log
        self._bell = Bell()
        self._closed = threading.Event()
        self._patience = Patience()
        self.thread = threading.Thread(target=self._loop, name="tidemill-tick", daemon=True)

    def close(self) -> None:
        """Ends the thread after what it is at."""
        self._closed.set()
        self._bell.ring()

    def _loop(self) -> None:
        while not self._closed.is_set():
            self._bell.wait(1.0 - time.time() % 1.0 + random.uniform(0, SPREAD_SECS))
            if self._closed.is_set():
                return
            try:
                self._duties()
            except TidemillError as error:
                self._failed(error.code)
            except Exception as error:  # noqa: BLE001 - a duty that fails is somebody else's too
                self._failed(type(error).__name__)
            else:
                if self._patience.succeeded():
                    self._log.info("ticks_resumed")

    def _failed(self, code: str) -> None:
        wait_s = self._patience.failed()
        self._log.warning("tick_failed", code=code, failures=self._patience.failures, retry_in_ms=int(wait_s * 1000))
        self._bell.wait(wait_s)
