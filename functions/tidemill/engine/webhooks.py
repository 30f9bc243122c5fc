"""Webhooks: what is due is made into calls; a courier takes them, signed, and brings back how they went (docs/adr/0017)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from tidemill.domain import keys
from tidemill.domain import webhooks as domain
from tidemill.domain.jobs import Ack, ClaimedJob, ClaimRequest, Failure
from tidemill.domain.transitions import Event, State
from tidemill.domain.webhooks import Call, Report, Told
from tidemill.engine.claim import TURN_MS, claim
from tidemill.engine.enqueue import enqueue
from tidemill.engine.settle import settle
from tidemill.engine.webhook_store import Due, Ending, WebhookStore
from tidemill.ports import Rolls

KEPT: Final = timedelta(days=7)
"""For how long it is shown what was told."""
PAUSED: Final = "the webhook is paused or gone"
STRANDED: Final = "the last attempt did not report back"


def tell(store: WebhookStore, *, limit: int, now: datetime | None = None) -> Mapping[str, int]:
    """Makes at most one call of what is due, in one transaction with the note that it was told; `more` if there may be others.

    With nothing due, looks for calls whose courier is gone, and forgets what is over.
    """
    with store.transaction():
        due = store.due_webhook(now=now)
        if due is None:
            return {"calls": 0, **_tidied(store, limit, now), "more": 0}
        told = store.take_news(due, _secs(domain.AGAIN_AFTER), domain.MOST)
        rest = told[domain.THINGS :]
        items = _described(store, due, told[: domain.THINGS])
        body = domain.event_body(due.event, due.project_id, due.now, items, len(rest), sum(one.times for one in rest))
        job = {
            "job_type": domain.JOB_TYPE, "queue": domain.QUEUE, "retry_policy": domain.RETRY_POLICY,
            "concurrency": {"limit": domain.CALLS_AT_ONCE, "key": due.project_id}, "partition_key": due.project_id,
            "payload": {"project_id": due.project_id, "event": due.event, "body": keys.compact_json(body)},
        }  # fmt: skip
        (made,) = enqueue(store, domain.SYSTEM_PROJECT, [job], now=now)
        assert made.job_id is not None
        store.note_call(due, made.job_id, len(told), _secs(domain.PACE_FAILING if due.is_failing else domain.PACE))
    return {"calls": 1, "things": len(told), "more": 1}


def take(store: WebhookStore, courier_id: str, *, limit: int, now: datetime | None = None) -> list[Call]:
    """Calls to make now, under leases of a minute. One whose webhook is paused or gone is dropped.

    Stands in line where another courier is at the queue: with an empty answer a courier goes home, until the next minute.
    """
    request = ClaimRequest(domain.SYSTEM_PROJECT, courier_id, [domain.QUEUE], limit, lease_ms=domain.LEASE_MS)
    with store.transaction():
        claimed = claim(store, request, now=now, wait_ms=TURN_MS)
        if not claimed:
            return []
        payloads = {job.job_id: json.loads(job.payload) for job in claimed}
        hooks, at = store.hooks(sorted(payloads), now=now)
        calls, dropped = list[Call](), list[ClaimedJob]()
        for job in claimed:
            payload = payloads[job.job_id]
            hook = hooks.get(job.job_id)
            if hook is None or at is None or (hook.is_paused and payload["event"] != domain.TEST):
                dropped.append(job)
            else:
                calls.append(domain.call_of(hook, job.job_id, job.lease_token, payload["body"], attempt=job.attempt, at=at))
        if dropped:
            settle(store, [_ack(job.job_id, job.lease_token, Event.COMPLETE) for job in dropped], roll=lambda: 0.5, now=now)
            store.note_ends([Ending(job.job_id, None, PAUSED, "dropped") for job in dropped], now=now)
    return calls


def report(store: WebhookStore, reports: Sequence[Report], *, roll: Rolls, now: datetime | None = None) -> Mapping[str, int]:
    """Ends the attempts and notes on the webhooks how they went. A lost lease notes nothing: the call is another courier's now."""
    counts = {"delivered": 0, "again": 0, "failed": 0}
    if not reports:
        return counts
    with store.transaction():
        results = settle(store, [_ack_of(one) for one in reports], roll=roll, now=now)
        ends = []
        for one, result in zip(reports, results, strict=True):
            if result.status == "ok":
                word = "delivered" if one.has_arrived else "failed" if result.state != State.SCHEDULED.value else None
                counts[word or "again"] += 1
                ends.append(Ending(one.job_id, one.status, one.error, word))
        store.note_ends(ends, now=now)
    return counts


def _tidied(store: WebhookStore, limit: int, now: datetime | None) -> Mapping[str, int]:
    stranded = store.stranded_calls(limit, now=now)
    if stranded:
        store.note_ends([Ending(call_id, None, STRANDED, "failed") for call_id in stranded], now=now)
    return {"stranded": len(stranded), "pruned": store.prune_webhooks(_secs(domain.FORGOTTEN_AFTER), _secs(KEPT), limit, now=now)}


def _described(store: WebhookStore, due: Due, told: Sequence[Told]) -> list[Told]:
    """Kinds of errors with the last job that died of each."""
    if due.event != domain.DEAD_LETTER:
        return list(told)
    found = store.samples(due.project_id, [(one.key, one.about["queue_id"], one.about["job_type"]) for one in told])
    samples = {sample.error_group: sample for sample in found}
    described = []
    for one in told:
        sample, about = samples[one.key], dict[str, Any](one.about)
        about.pop("queue_id")
        job = {"id": sample.job_id, "attempt": sample.attempts} if sample.job_id is not None else None
        described.append(one._replace(about={"error_group": one.key, **about, "queue": sample.queue, "job": job}))
    return described


def _ack_of(one: Report) -> Ack:
    if one.has_arrived:
        return _ack(one.job_id, one.lease_token, Event.COMPLETE)
    delay_ms = one.retry_after_secs * 1000 if one.retry_after_secs is not None else None
    failure = Failure("WebhookFailed", one.error or "")
    digest = keys.digest([one.status, one.error])
    return Ack(
        one.job_id, one.lease_token, Event.FAIL, digest, failure=failure, retryable=one.status != domain.GONE, retry_delay_ms=delay_ms
    )


def _ack(job_id: str, lease_token: str, event: Event) -> Ack:
    return Ack(job_id, lease_token, event, keys.digest(event.value))


def _secs(duration: timedelta) -> int:
    return int(duration.total_seconds())
