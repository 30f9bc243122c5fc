"""The app of the worker processes under test. A payload says what its job does; `trace` names a file to which each run adds a line."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tidemill import App

app = App()
PAUSE = threading.Event()  # never set: waiting on it with a time-out lets others run


def trace(payload: Any, line: str) -> None:
    if name := payload.get("trace"):
        with Path(name).open("a") as file:
            file.write(line + "\n")


def hold(ctx: Any, payload: Any) -> str:
    """Runs for `secs`, or until it is asked to stop (`heeds`)."""
    ends_at = time.monotonic() + payload.get("secs", 300)
    while time.monotonic() < ends_at:
        if payload.get("heeds") and ctx.cancelled:
            ctx.raise_if_cancelled()
        PAUSE.wait(0.01)
    return "held"


@app.job("noop")
def noop(ctx: Any, payload: Any) -> None:
    pass


@app.job("once")
def once(ctx: Any, payload: Any) -> int:
    trace(payload, ctx.id)
    return os.getpid()


@app.job("hold")
def hold_thread(ctx: Any, payload: Any) -> str:
    trace(payload, f"{ctx.id} {ctx.attempt}")
    return hold(ctx, payload)


@app.job("hold.async")
async def hold_async(ctx: Any, payload: Any) -> str:
    import asyncio

    trace(payload, f"{ctx.id} {ctx.attempt}")
    try:
        await asyncio.sleep(payload.get("secs", 300))
    except asyncio.CancelledError:
        trace(payload, f"{ctx.id} cancelled")
        raise
    return "held"


@app.job("hold.process", isolation="process")
def hold_process(ctx: Any, payload: Any) -> str:
    trace(payload, f"{ctx.id} {os.getpid()}")
    return hold(ctx, payload)


@app.job("process", isolation="process", not_retryable=[KeyError])
def in_process(ctx: Any, payload: Any) -> Any:
    match payload.get("do"):
        case "exit":
            os._exit(payload["code"])
        case "leave":
            sys.exit(payload["code"])
        case "die":
            os.kill(os.getpid(), 9)
        case "raise":
            raise KeyError("no such thing")
        case "report":
            ctx.progress(1, 2, "half")
            ctx.save_checkpoint({"at": 1}, "c")
            ctx.output([1])
            ctx.log.info("said", n=1)
            return [ctx.enqueue("noop", {"parent": ctx.id}), ctx.attempt, ctx.checkpoint]
        case "eat":
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (600_000_000, 600_000_000))
            return len(bytearray(2_000_000_000))
    return os.getpid()


def talk() -> None:
    logging.getLogger("harness.talk").info("hello %s", "there", extra={"n": 1})


@app.job("talk")
def talk_thread(ctx: Any, payload: Any) -> None:
    talk()


@app.job("talk.async")
async def talk_async(ctx: Any, payload: Any) -> None:
    import asyncio

    await asyncio.sleep(0)
    talk()
    await asyncio.to_thread(talk)


@app.job("talk.process", isolation="process")
def talk_process(ctx: Any, payload: Any) -> None:
    talk()


@app.job("parent")
def parent(ctx: Any, payload: Any) -> None:
    """Starts a process and does not wait for it."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=payload.get("apart", False))
    trace(payload, str(child.pid))
    hold(ctx, payload)
