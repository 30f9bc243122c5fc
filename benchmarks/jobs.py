"""The jobs that the benchmark's workers run: `tidemill worker benchmarks.jobs:app`."""

import time
from typing import Any

from tidemill.runner.app import App

app = App()


@app.job("bench.noop")
def noop(_ctx: Any, _payload: Any) -> None:
    """Nothing: what remains is the queue."""


@app.job("bench.stamp")
def stamp(_ctx: Any, _payload: Any) -> dict[str, int]:
    """When the handler began, by this machine's clock."""
    return {"at": time.time_ns()}
