"""What the courier's function does on AWS every minute, here every second: asks the scheduler for calls of webhooks and sends them."""

import asyncio
import json
import logging
import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar
from uuid import uuid4

from tidemill.courier.rounds import AT_ONCE, calls_of, question
from tidemill.courier.send import send
from tidemill.domain.errors import TidemillError
from tidemill.domain.webhooks import Call, Report
from tidemill.local.gateway import Invoker

EVERY_S: Final = 1.0
AFTER_TICK_S: Final = 0.5
"""Rounds are half-way between the ticks, which begin with them: asked for at once, the scheduler would be given a second process."""

logger = logging.getLogger(__name__)
T = TypeVar("T")


class LocalCourier:
    """Carries calls from `run()` until it is cancelled. Those that are under way then are another courier's once their minute is over."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker
        self._id = str(uuid4())
        self._reports: list[Report] = []
        self._failing = ""

    async def run(self) -> None:
        """Rounds for ever; the next begins at once while there are calls. A failure is logged when its reason changes."""
        loop = asyncio.get_running_loop()
        due = loop.time() + AFTER_TICK_S
        await asyncio.sleep(AFTER_TICK_S)
        while True:
            try:
                is_busy = await self._round()
                self._failing = ""
            except TidemillError as error:
                is_busy = False
                if str(error) != self._failing:
                    logger.warning("the courier cannot reach the scheduler: %s", error)
                self._failing = str(error)
            if not is_busy:
                due += EVERY_S * max(1, math.ceil((loop.time() - due) / EVERY_S))  # however long it took, the beat is kept
                await asyncio.sleep(due - loop.time())

    async def _round(self) -> bool:
        answer = await self._invoker.invoke("scheduler", json.dumps(question(self._id, self._reports, AT_ONCE)).encode())
        calls = calls_of(json.loads(answer))
        self._reports = await asyncio.gather(*(_in_thread(partial(_sent, call)) for call in calls))
        return bool(calls)


def _sent(call: Call) -> Report:
    return send(call, is_local=True)


async def _in_thread(work: Callable[[], T]) -> T:
    """What `work` returns. In a thread that nobody has to wait for when everything ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(result: T) -> None:
        if not done.done():
            done.set_result(result)

    def run() -> None:
        result = work()
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, result)

    threading.Thread(target=run, name="courier", daemon=True).start()
    return await done
