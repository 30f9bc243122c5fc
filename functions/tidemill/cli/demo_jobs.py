"""The jobs of `tidemill demo`: one reads a file and counts, one sums up when all of those have ended, one is fired by a schedule."""

from __future__ import annotations

import time
from typing import Any, Final

from tidemill.cli.demo_files import Count, count
from tidemill.runner import App, Context, NotRetryable

JOB_TYPE: Final = "demo.count_file"
SUM_TYPE: Final = "demo.sum_up"
TICK_TYPE: Final = "demo.every_second"

app = App()


@app.job(JOB_TYPE, retry={"strategy": "fixed", "base_delay_ms": 100, "max_attempts": 10})
def count_file(_: Context, payload: dict[str, Any]) -> dict[str, Any]:
    """Bytes, lines and SHA-256 of `path`. A file that cannot be read is dead at once: another attempt would not read it either."""
    time.sleep(payload.get("pause_ms", 0) / 1000)
    try:
        found: Count = count(payload["path"])
    except OSError as error:
        raise NotRetryable(type(error).__name__) from error
    return found._asdict()


@app.job(SUM_TYPE)
def sum_up(ctx: Context, _: Any) -> dict[str, int]:
    """The batch's callback: its members are its parents."""
    counts = [one.result for one in ctx.parents.values() if one.state == "completed"]
    return {"jobs": len(ctx.parents), "bytes": sum(c["bytes"] for c in counts), "lines": sum(c["lines"] for c in counts)}


@app.job(TICK_TYPE)
def every_second(_: Context, payload: dict[str, Any]) -> str:
    """One occurrence of the schedule: the instant that it stands for."""
    return str(payload["path"])
