"""What EventBridge does on AWS every minute, here every second: one run of the scheduler function, never two at once."""

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from tidemill.domain.errors import TidemillError
from tidemill.local.gateway import Invoker

EVERY_S: Final = 1.0
SCHEDULE: Final = "arn:aws:scheduler:local:000000000000:schedule/default/tidemill-tick"

logger = logging.getLogger(__name__)


def event() -> bytes:
    """A scheduled event as EventBridge sends it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps(
        {
            "version": "0", "id": str(uuid4()), "detail-type": "Scheduled Event", "source": "aws.scheduler", "account": "000000000000",
            "time": now, "region": "local", "resources": [SCHEDULE], "detail": {},
        }
    ).encode()  # fmt: skip


class Ticks:
    """Ticks from `run()` until it is cancelled. A run that takes longer than a second makes the next ticks fall out."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker
        self._failing = ""

    async def run(self) -> None:
        """Ticks for ever. A failing tick is logged when its reason changes, not every second."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self._tick()
            due = max(due + EVERY_S, loop.time())
            await asyncio.sleep(due - loop.time())

    async def _tick(self) -> None:
        try:
            await self._invoker.invoke("scheduler", event())
        except TidemillError as error:
            if str(error) != self._failing:
                logger.warning("tick failed: %s", error)
            self._failing = str(error)
        else:
            self._failing = ""
