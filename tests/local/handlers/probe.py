"""A function for tests of the runtime: does what its event says."""

import os
import time
from pathlib import Path


def handler(event, context):
    if "sleep_s" in event:
        time.sleep(event["sleep_s"])
    if event.get("raises"):
        raise ValueError("a secret of the function's own")
    if event.get("dies"):
        os._exit(3)
    if event.get("environment"):
        return dict(os.environ)
    if event.get("context"):
        return {
            "remaining_ms": context.get_remaining_time_in_millis(),
            "arn": context.invoked_function_arn,
            "request_id": context.aws_request_id,
            "cwd": str(Path.cwd()),
        }
    return {"pid": os.getpid(), "size": len(event.get("text", "")), "text": "x" * event.get("answers", 0)}
