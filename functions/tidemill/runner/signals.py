"""What SIGTERM and SIGINT do: before there is a worker they end the process at once; then the first drains it, the second ends it.

The handlers only set flags and release locks, because they run in the main thread between any two of its instructions.
Being set at all is what makes them work for process 1 of a container.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

from tidemill.runner.descendants import kill_descendants
from tidemill.runner.worker import Worker

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def end_at_once() -> None:
    """Until `drain_with`: nothing is held yet, so the process just ends, well."""

    def end(*_: object) -> None:
        os._exit(0)

    for number in SIGNALS:
        signal.signal(number, end)


def drain_with(worker: Worker) -> None:
    """From now on the first signal stops the worker; a second one ends the process, and its jobs wait for their leases' end."""

    def end(number: int, _: FrameType | None) -> None:
        if worker.is_stopping:
            kill_descendants()
            os._exit(128 + number)
        worker.stop()

    for number in SIGNALS:
        signal.signal(number, end)
