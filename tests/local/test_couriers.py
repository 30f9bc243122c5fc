"""When the local courier asks the scheduler: on a clock that jumps to whatever is due next."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import pytest

from tidemill.domain.errors import Unavailable
from tidemill.local.couriers import LocalCourier
from tidemill.local.ticks import Ticks


class Jumping(asyncio.SelectorEventLoop):
    """A loop whose time passes only while everybody waits for it."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self.now = max(self.now, self._scheduled[0].when())
        super()._run_once()


class Scheduler:
    """Takes a while for each call, and remembers from when till when."""

    def __init__(self, takes_s: float, *, is_away: bool = False) -> None:
        self.takes_s, self.is_away = takes_s, is_away
        self.calls: list[tuple[str, float, float]] = []

    async def invoke(self, function: str, event: bytes, *, waits: bool = False) -> bytes:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(self.takes_s)
        self.calls.append(("tick" if b"aws.scheduler" in event else "round", began, loop.time()))
        if self.is_away:
            raise Unavailable("away", retry_after_secs=1)
        return json.dumps({"calls": []}).encode()


def run(scheduler: Any, for_s: float) -> None:
    async def both() -> None:
        work = asyncio.gather(Ticks(scheduler).run(), LocalCourier(scheduler).run())
        await asyncio.sleep(for_s)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    with asyncio.Runner(loop_factory=Jumping) as runner:
        runner.run(both())


@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize("takes_s", [0.01, 0.4])
def test_rounds_and_ticks_of_minutes_never_ask_at_the_same_time(takes_s: float, is_away: bool) -> None:
    scheduler = Scheduler(takes_s, is_away=is_away)
    run(scheduler, 200.0)
    calls = sorted(scheduler.calls, key=lambda call: call[1])
    assert all(one[2] < other[1] for one, other in itertools.pairwise(calls))
    assert 198 <= sum(kind == "round" for kind, _, _ in calls) <= 200


def test_a_round_that_took_long_leaves_the_beat_as_it_was() -> None:
    scheduler = Scheduler(1.3)
    run(scheduler, 20.0)
    begun = [began for kind, began, _ in scheduler.calls if kind == "round"]
    assert begun == [0.5 + 2 * n for n in range(len(begun))]
    assert len(begun) >= 9
