"""Runs an instance until a signal comes, and turns how it ended into an exit code."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from tidemill.domain.errors import TidemillError
from tidemill.local.announce import tell
from tidemill.local.instance import Instance
from tidemill.local.options import BrokeDown, CannotStart, Options

ENDED, BROKEN, REFUSED = 0, 1, 2
LOG_NAME = "dev.log"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # a closed terminal ends it too


def run(options: Options) -> int:
    """The exit code: 0 ended by a signal, 1 a part broke down, 2 it could not begin and one line on standard error says why."""
    on_terminal = sys.stdout.isatty() and sys.stderr.isatty() and not options.as_json
    level = getattr(logging, options.log_level.upper())
    handlers: list[logging.Handler] = [] if on_terminal else [logging.StreamHandler(sys.stderr)]
    logging.basicConfig(level=max(level, logging.INFO), format="tidemill %(levelname)s %(message)s", handlers=handlers, force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(options, Instance(options, log_name=LOG_NAME if on_terminal else None)))
    except CannotStart as error:
        return _refuse(error, REFUSED)
    except TidemillError as error:
        return _refuse(error, BROKEN)
    return ENDED


async def _run(options: Options, instance: Instance) -> None:
    wanted = _until_signal(instance)
    try:
        starting = asyncio.create_task(instance.start())
        await _first(starting, wanted)
        if wanted.done():
            starting.cancel()
            await asyncio.wait({starting})
            return
        tell(starting.result(), as_json=options.as_json)
        broken = asyncio.create_task(instance.broken())
        await _first(broken, wanted)
        if not wanted.done():
            broken.result()
            raise BrokeDown("the HTTP server ended by itself")
        broken.cancel()
        await asyncio.wait({broken})
    finally:
        await instance.close()


async def _first(*either: asyncio.Future[Any]) -> None:
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)


def _until_signal(instance: Instance) -> asyncio.Future[None]:
    """Done when the first signal comes. The second one ends this process and all it has begun at once."""
    loop = asyncio.get_running_loop()
    wanted: asyncio.Future[None] = loop.create_future()

    def on_signal(number: int) -> None:
        if not wanted.done():
            wanted.set_result(None)
            return
        instance.end_now()
        os._exit(128 + number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    return wanted


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # not made for every system
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def _refuse(error: TidemillError, code: int) -> int:
    print(f"tidemill: {' '.join(error.detail.split())}", file=sys.stderr)
    return code
