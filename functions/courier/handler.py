"""Lambda on EventBridge: sends the calls of webhooks, which come ready and signed from the scheduler.

It runs outside the VPC, where the internet is, and knows neither the database nor a secret.
"""

import json
import os
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from tidemill.courier.rounds import Courier
from tidemill.courier.send import send
from tidemill.observe import emf

ROUND_S = 15.0
"""Kept for the round that is under way when the time is over."""
ASK_TIMEOUT_S = 15

logger = Logger(service="courier")


def handler(_: dict[str, Any], context: Any) -> dict[str, int]:
    """What became of the calls, by word."""
    counts = courier().run(context.get_remaining_time_in_millis() / 1000 - ROUND_S - ASK_TIMEOUT_S)
    logger.info("courier", extra={"calls": counts})
    if values := emf.of_calls(counts):
        print(emf.line(os.environ.get("TIDEMILL_STAGE", "local"), values, at_ms=int(time.time() * 1000)), flush=True)
    return dict(counts)


@cache
def courier() -> Courier:
    """One per environment."""
    return Courier(asked, send)


def asked(question: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scheduler's answer; RuntimeError where it failed, by the kind of its error only."""
    answer = client().invoke(FunctionName=os.environ["SCHEDULER"], Payload=json.dumps(question).encode())
    said: dict[str, Any] = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise RuntimeError(f"the scheduler failed: {said.get('errorType')}")
    return said


@cache
def client() -> Any:
    """Of the Lambda service; its time-out is shorter than ours."""
    import boto3
    from botocore.config import Config

    return boto3.client("lambda", config=Config(read_timeout=ASK_TIMEOUT_S, retries={"total_max_attempts": 1}))
