"""A worker's messages: the engine's objects as the API's JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tidemill.domain import keys, limits
from tidemill.domain.jobs import Ack, ClaimedJob, Enqueued, Heartbeat, HeartbeatAnswer, LeaseBeat, LogLine, ParentResult, Registration
from tidemill.domain.transitions import Event

ENVELOPE_BYTES: Final = 1_024

Message = dict[str, Any]


def registration(given: Registration) -> Message:
    """Body of `POST /v1/workers`."""
    return {
        "name": given.name,
        "hostname": given.hostname,
        "pid": given.pid,
        "version": given.version,
        "queues": list(given.queues),
        "job_types": list(given.job_types) if given.job_types is not None else None,
        "max_concurrency": given.max_concurrency,
        "lease_ms": given.lease_ms,
    }


def claim(given: Registration, worker_id: str, limit: int, wait_ms: int) -> Message:
    """Body of `POST /v1/claims`: begun jobs under the lease that the worker has registered with."""
    return {
        "worker_id": worker_id,
        "queues": list(given.queues),
        "job_types": list(given.job_types) if given.job_types is not None else None,
        "limit": limit,
        "lease_ms": given.lease_ms,
        "start": True,
        "wait_ms": wait_ms,
    }


def claimed_job(given: Mapping[str, Any]) -> ClaimedJob:
    """A job of a claim's answer. The queue's id is not told over HTTPS."""
    checkpoint, headers = given.get("checkpoint"), given.get("headers")
    expires_at = instant(given["lease_expires_at"])
    return ClaimedJob(
        job_id=given["id"],
        lease_token=given["lease_token"],
        job_type=given["job_type"],
        queue=given["queue"],
        payload=keys.compact_json(given.get("payload")),
        schema_version=given.get("schema_version"),
        headers=keys.compact_json(headers) if headers else None,
        attempt=given["attempt"],
        max_attempts=given["max_attempts"],
        fence=given["fence"],
        lease_expires_at=expires_at,
        timeout_ms=given.get("timeout_ms"),
        checkpoint=keys.compact_json(checkpoint) if checkpoint is not None else None,
        traceparent=given.get("traceparent"),
        tracestate=given.get("tracestate"),
        queue_id="",
        priority=given.get("priority", 0),
        run_at=instant(given["run_at"]) if given.get("run_at") else expires_at,
    )


def ack_parts(acks: Sequence[Ack]) -> Iterator[list[Message]]:
    """Acks as JSON, in parts that one call may carry."""
    part: list[Message] = []
    size = 0
    for one in acks:
        message = ack(one)
        weight = len(keys.compact_json(message).encode("utf-8", "surrogatepass")) + 1
        if part and (len(part) >= limits.ACKS or size + weight > limits.BODY_BYTES - ENVELOPE_BYTES):
            yield part
            part, size = [], 0
        part.append(message)
        size += weight
    if part:
        yield part


def ack(given: Ack) -> Message:
    """One item of `POST /v1/acks`, with the fields that its outcome knows."""
    message: Message = {"job_id": given.job_id, "lease_token": given.lease_token, "outcome": given.event.value}
    match given.event:
        case Event.COMPLETE if given.result is not None:
            message["result"] = parsed(given.result)
        case Event.SNOOZE:
            message["delay_ms"] = given.delay_ms
        case Event.FAIL | Event.CRASH:
            if given.failure is not None:
                error = {"class": given.failure.error_class, "message": given.failure.message}
                message["error"] = error | ({"stack": given.failure.stack} if given.failure.stack else {})
            if given.exit_code is not None:
                message["exit_code"] = given.exit_code
            if given.event is Event.FAIL:
                message["retryable"] = given.retryable
                if given.throttle_ms is not None:
                    message["throttle_ms"] = given.throttle_ms
                if given.retry_delay_ms is not None:
                    message["retry_delay_ms"] = given.retry_delay_ms
        case _:
            pass
    return message


def heartbeat(given: Heartbeat) -> Message:
    """Body of a heartbeat."""
    return {
        "leases": [{"job_id": lease.job_id, "lease_token": lease.lease_token} for lease in given.leases],
        "active_job_count": given.active_job_count,
        "cpu_percent": given.cpu_percent,
        "memory_mb": given.memory_mb,
        "status": given.status,
    }


def heartbeat_answer(given: Mapping[str, Any]) -> HeartbeatAnswer:
    """What a heartbeat answers."""
    cancel = set(given["cancel"])
    beats = [LeaseBeat(b["job_id"], instant(b["lease_expires_at"]), b["job_id"] in cancel) for b in given["leases"]]
    return HeartbeatAnswer(given["command"], given["cancel"], given["lost"], beats)


def enqueued(given: Mapping[str, Any]) -> Enqueued:
    """One result of a bulk enqueue."""
    error = given.get("error") or {}
    loc = error.get("loc") or []
    field = str(loc[-1]) if loc else None
    code, message = error.get("code"), error.get("msg")
    return Enqueued(given["index"], given.get("job_id"), given.get("state"), given.get("deduplicated", False), code, field, message)


def parent_result(given: Mapping[str, Any]) -> ParentResult:
    """One parent of a job."""
    result = given.get("result")
    return ParentResult(given["id"], given.get("state"), keys.compact_json(result) if result is not None else None)


def log_lines(lines: Sequence[LogLine]) -> list[Message]:
    """Log lines with their instants in UTC."""
    return [
        {"ts": line.ts.astimezone(UTC).isoformat().replace("+00:00", "Z"), "level": line.level, "message": line.message} for line in lines
    ]


def parsed(text: str) -> Any:
    """The value of JSON text that this process has written."""
    return json.loads(text)


def instant(text: str) -> datetime:
    """An instant of the API."""
    return datetime.fromisoformat(text)
