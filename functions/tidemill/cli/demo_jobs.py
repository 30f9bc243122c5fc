"""The job of `tidemill demo`: reads one file and counts what is in it."""

from __future__ import annotations

import time
from typing import Any, Final

from tidemill.cli.demo_files import Count, count
from tidemill.runner import App, Context, NotRetryable

JOB_TYPE: Final = "demo.count_file"

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
