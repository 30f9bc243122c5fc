"""The jobs of `tidemill dev`'s worker: something to enqueue before an app of one's own exists."""

import time
from typing import Any

from tidemill.runner import App, Context

app = App()


@app.job("demo.hello")
def hello(ctx: Context, payload: Any) -> dict[str, str]:
    """Greets `name`."""
    name = str(payload.get("name", "world")) if isinstance(payload, dict) else "world"
    greeting = f"hello, {name}"
    ctx.log.info(greeting)
    return {"greeting": greeting}


@app.job("demo.count", timeout_ms=600_000)
def count(ctx: Context, payload: Any) -> dict[str, int]:
    """Counts to `to` (at most 600), one step in `step_ms`, and says how far it is; stops when it is cancelled."""
    wanted = payload if isinstance(payload, dict) else {}
    to, step_s = min(int(wanted.get("to", 10)), 600), min(int(wanted.get("step_ms", 1_000)), 10_000) / 1_000
    done = 0
    while done < to:
        ctx.raise_if_cancelled()
        time.sleep(step_s)
        done += 1
        ctx.progress(done, to)
    return {"counted": done}


@app.job("demo.fail")
def fail(ctx: Context, _: Any) -> None:
    """Always fails, so that retries and the dead letter can be watched."""
    raise RuntimeError(f"attempt {ctx.attempt} failed as it was asked to")
