"""The custom resource's side of CloudFormation: one PUT with the outcome."""

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

TRIES = 3
TIMEOUT_S = 10


def answer(
    event: Mapping[str, Any], context: Any, status: str, resource_id: str, *, reason: str = "", data: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Sends SUCCESS or FAILED to where CloudFormation waits for it; what was sent. OSError if it cannot be reached."""
    told = {
        "Status": status,
        "Reason": reason or f"log stream {getattr(context, 'log_stream_name', '')}",
        "PhysicalResourceId": resource_id,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": dict(data or {}),
    }
    body = json.dumps(told).encode()
    for left in range(TRIES - 1, -1, -1):
        request = urllib.request.Request(  # noqa: S310 - CloudFormation's own address
            event["ResponseURL"], data=body, method="PUT", headers={"content-type": ""}
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310 - as above
                break
        except OSError:
            if not left:
                raise
    return told
