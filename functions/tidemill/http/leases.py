"""Jobs go out under leases, and reports come back: claims, acks, exchange."""

from __future__ import annotations

import json
import random
import time
from typing import Any, Final

from tidemill.domain.jobs import AckResult, ClaimedJob, ClaimRequest, Heartbeat, HeartbeatAnswer, Lease
from tidemill.engine.claim import TURN_MS, claim_in_turn
from tidemill.engine.claim import claim as claim_jobs
from tidemill.engine.exchange import exchange as exchange_all
from tidemill.http.acks import Reports, settle_each
from tidemill.http.fields import text_of
from tidemill.http.job_view import with_json
from tidemill.http.models.workers import AcksDocument, AcksIn, AcksOut, Claimed, ClaimIn, ExchangeIn, ExchangeOut
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.own_leases import own, own_beat
from tidemill.store.postgres import PostgresStore

PAUSE_MS: Final = (50, 250)
"""Between the looks of a waiting claim: the first pause, and the longest."""

RESERVE_MS: Final = 2_000
"""What a waiting claim leaves of the function's time."""


@operation(body=ClaimIn, answers={200: Claimed}, cleans_text=True)
def claim(call: Call) -> Answer:
    """Take due jobs under leases. With `wait_ms`, an empty answer comes only after so long (or a little before the function's end)."""
    request = claim_request(call.project_id, call.body)
    jobs = call.database.run(lambda store: claim_in_turn(store, request)) or _waited(call, request, call.body.get("wait_ms", 0))
    return Answer(f'{{"jobs":{_jobs_json(jobs)}}}')


@operation(body=AcksIn, document=AcksDocument, answers={200: AcksOut}, cleans_text=True)
def ack(call: Call) -> Answer:
    """Report how attempts ended. One result per item; a faulty one spoils no other; an exact repeat is `ok` again.

    A result over 256 KiB completes the job without it: the answer's code says `payload_too_large`.
    """
    reports = Reports(call.body["acks"])

    def work(store: PostgresStore) -> list[AckResult]:
        return settle_each(store, own(store, call.project_id, reports.acks), random.random)

    results = call.database.run(work) if reports.acks else []
    return Answer({"results": reports.answers(results)})


@operation(body=ExchangeIn, answers={200: ExchangeOut}, cleans_text=True)
def exchange(call: Call) -> Answer:
    """Heartbeat, reports and claim in one transaction and one round trip: a worker's normal beat. `claim.wait_ms` waits as a claim does."""
    worker_id = call.body["worker_id"]
    beat = heartbeat_of(call.body["heartbeat"]) if call.body.get("heartbeat") is not None else None
    reports = Reports(call.body.get("acks") or [])
    wanted = call.body.get("claim")
    request = claim_request(call.project_id, {**wanted, "worker_id": worker_id}) if wanted is not None else None

    def work(store: PostgresStore) -> tuple[tuple[HeartbeatAnswer | None, list[Any], list[ClaimedJob]], bool]:
        ours = own_beat(store, call.project_id, beat) if beat is not None else None
        acks = own(store, call.project_id, reports.acks)
        done = exchange_all(store, call.project_id, worker_id, beat=ours, acks=acks, claim=request, roll=random.random)
        return done, store.met_others

    (answer, results, jobs), is_crowded = call.database.run(work)
    if request is not None and wanted is not None and not jobs:
        # who holds what it reports must not wait in line: the turn comes after that is committed
        jobs = call.database.run(lambda store: claim_jobs(store, request, wait_ms=TURN_MS)) if is_crowded else []
        jobs = jobs or _waited(call, request, wanted.get("wait_ms", 0))
    heartbeat = json.dumps(heartbeat_json(answer) if answer is not None else None)
    acks = json.dumps(reports.answers(results), separators=(",", ":"))
    return Answer(f'{{"heartbeat":{heartbeat},"acks":{acks},"jobs":{_jobs_json(jobs)}}}')


def claim_request(project_id: str, given: dict[str, Any]) -> ClaimRequest:
    """The engine's request for a validated claim."""
    return ClaimRequest(
        project_id=project_id,
        worker_id=given["worker_id"],
        queues=given["queues"],
        limit=given.get("limit", 1),
        job_types=given.get("job_types"),
        lease_ms=given.get("lease_ms"),
        start=given.get("start", True),
    )


def heartbeat_of(given: dict[str, Any]) -> Heartbeat:
    """The engine's heartbeat for a validated one."""
    return Heartbeat(
        leases=[Lease(lease["job_id"], lease["lease_token"]) for lease in given.get("leases", [])],
        active_job_count=given.get("active_job_count", 0),
        cpu_percent=given.get("cpu_percent"),
        memory_mb=given.get("memory_mb"),
        status=given.get("status"),
    )


def heartbeat_json(answer: HeartbeatAnswer) -> dict[str, Any]:
    """What a heartbeat answers."""
    return {
        "command": answer.command,
        "cancel": list(answer.cancel),
        "lost": list(answer.lost),
        "leases": [{"job_id": beat.job_id, "lease_expires_at": text_of(beat.lease_expires_at)} for beat in answer.leases],
    }


def _waited(call: Call, request: ClaimRequest, wait_ms: int) -> list[ClaimedJob]:
    """Looks again until there is a job or the time is over. Counts its pauses too, so that it ends under any clock."""
    left_ms = float(min(wait_ms, call.request.remaining_ms() - RESERVE_MS))
    deadline = time.monotonic() + left_ms / 1000
    pause_ms = float(PAUSE_MS[0])
    while left_ms > 0 and time.monotonic() < deadline:
        pause_ms = min(pause_ms, left_ms)
        call.sleep(pause_ms / 1000)
        left_ms -= pause_ms
        if jobs := call.database.run(lambda store: claim_in_turn(store, request)):
            return jobs
        pause_ms = min(pause_ms * 1.5, PAUSE_MS[1])
    return []


def _jobs_json(jobs: list[ClaimedJob]) -> str:
    return "[" + ",".join(map(_job_json, jobs)) + "]"


def _job_json(job: ClaimedJob) -> str:
    fields = {
        "id": job.job_id,
        "job_type": job.job_type,
        "queue": job.queue,
        "schema_version": job.schema_version,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "fence": job.fence,
        "lease_token": job.lease_token,
        "lease_expires_at": text_of(job.lease_expires_at),
        "timeout_ms": job.timeout_ms,
        "traceparent": job.traceparent,
        "tracestate": job.tracestate,
        "priority": job.priority,
        "run_at": text_of(job.run_at),
    }
    return with_json(fields, payload=job.payload, headers=job.headers or "{}", checkpoint=job.checkpoint)
