"""The trace that a request belongs to (W3C Trace Context): jobs that say nothing of their own go on with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
LONGEST: Final = 255
LONGEST_STATE: Final = 512


def trace_of(headers: Mapping[str, str]) -> dict[str, str]:
    """`traceparent` and `tracestate` of a request's headers; {} where the first is missing or none: then the second means nothing."""
    parent, state = headers.get("traceparent", ""), headers.get("tracestate", "")
    if len(parent) > LONGEST or _TRACEPARENT.fullmatch(parent) is None:
        return {}
    return {"traceparent": parent, **({"tracestate": state} if 0 < len(state) <= LONGEST_STATE and state.isprintable() else {})}


def traced(job: dict[str, Any], trace: Mapping[str, str]) -> dict[str, Any]:
    """The job with the trace, unless it has one of its own."""
    return job if not trace or job.get("traceparent") is not None else {**job, "tracestate": None, **trace}
