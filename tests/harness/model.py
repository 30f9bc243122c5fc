"""What a project of jobs does, in memory: written from the contract, not from the code, and small enough to be read at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tidemill.domain.jobs import Ack, Lease
from tidemill.domain.transitions import Event

LEASE = timedelta(seconds=30)
BACKOFF = timedelta(seconds=60)
KEEP = {"completed": timedelta(minutes=10), "cancelled": timedelta(minutes=10), "dead_letter": timedelta(minutes=20)}
STATUS = {
    Event.COMPLETE: "completed", Event.FAIL: "failed", Event.CRASH: "crashed", Event.SNOOZE: "snoozed", Event.RELEASE: "released",
    Event.ACK_CANCELLED: "cancelled",
}  # fmt: skip


class ModelError(Exception):
    """The refusal that is expected, by its code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Held:
    """A lease."""

    token: str
    ends: datetime
    started: bool
    cancel: bool = False


@dataclass
class Job:
    """`at`: pending, entry, leased, completed, cancelled or dead_letter."""

    at: str
    run_at: datetime
    priority: int
    most: int
    key: int | None
    window: str
    until: datetime | None
    attempts: int = 0
    fence: int = 0
    lease: Held | None = None
    ended_at: datetime | None = None
    history: list[str] = field(default_factory=list)


class Model:
    """All jobs, who holds which unique key until when, and what idempotency keys answer with."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.keys: dict[int, tuple[str, datetime | None]] = {}
        self.answers: dict[str, str] = {}

    def state(self, job_id: str, now: datetime) -> str:
        job = self.jobs[job_id]
        if job.at == "entry":
            return "scheduled" if job.run_at > now else "queued"
        if job.lease:
            return "running" if job.lease.started else "claimed"
        return job.at

    def seen(self, job_id: str, now: datetime) -> tuple[Any, ...]:
        job = self.jobs[job_id]
        due = job.run_at if job.at in ("pending", "entry") else None
        return (self.state(job_id, now), job.attempts, job.fence, job.priority, due, job.history)

    def key_holders(self) -> set[str]:
        return {job_id for job_id, _ in self.keys.values()} | set(self.answers.values())

    # in and out

    def holder(self, key: int | None, idempotency_key: str | None, now: datetime) -> str | None:
        if idempotency_key in self.answers:
            return self.answers[idempotency_key]
        held = self.keys.get(key) if key is not None else None
        return held[0] if held and (held[1] is None or held[1] > now) else None

    def enqueue(
        self, job_id: str, *, run_at: datetime, most: int, now: datetime, key: int | None = None, window: str = "running",
        ttl: timedelta | None = None, held: bool = False, priority: int = 0,
    ) -> None:  # fmt: skip
        until = now + ttl if ttl and key is not None else None
        self.jobs[job_id] = Job("pending" if held else "entry", run_at, priority, most, key, window, until)
        if key is not None:
            self.keys[key] = (job_id, until)

    def remember(self, idempotency_key: str | None, job_id: str) -> None:
        if idempotency_key is not None:
            self.answers.setdefault(idempotency_key, job_id)

    def forget(self, job_id: str) -> None:
        del self.jobs[job_id]
        self.keys = {key: held for key, held in self.keys.items() if held[0] != job_id}
        self.answers = {key: answer for key, answer in self.answers.items() if answer != job_id}

    def free(self, job_id: str, *windows: str) -> None:
        job = self.jobs[job_id]
        if job.key is not None and job.window in windows and self.keys.get(job.key, ("",))[0] == job_id:
            del self.keys[job.key]

    # workers

    def next(self, limit: int, now: datetime) -> list[str]:
        due = [(-job.priority, job.run_at, job_id) for job_id, job in self.jobs.items() if job.at == "entry" and job.run_at <= now]
        return [job_id for _, _, job_id in sorted(due)[:limit]]

    def claim(self, job_id: str, token: str, *, start: bool, now: datetime) -> tuple[int, int]:
        job = self.jobs[job_id]
        job.at, job.lease = "leased", Held(token, now + LEASE, start)
        job.attempts += 1
        job.fence += 1
        if start:
            self.free(job_id, "pending")
        return job.attempts, job.fence

    def lease(self, lease: Lease) -> Held | None:
        job = self.jobs.get(lease.job_id)
        return job.lease if job and job.lease and job.lease.token == lease.lease_token else None

    def start(self, lease: Lease) -> str:
        held = self.lease(lease)
        if held is None:
            raise ModelError("lease_lost")
        held.started = True
        self.free(lease.job_id, "pending")
        return "running"

    def beat(self, lease: Lease, now: datetime) -> tuple[datetime, bool] | None:
        held = self.lease(lease)
        if held is None:
            return None
        held.ends = max(held.ends, now + LEASE)
        return held.ends, held.cancel

    def ack(self, ack: Ack, now: datetime) -> str | None:
        held = self.lease(Lease(ack.job_id, ack.lease_token))
        if held is None:
            return None
        job = self.jobs[ack.job_id]
        job.history.append(STATUS[ack.event])
        if ack.event in (Event.SNOOZE, Event.RELEASE):
            job.attempts -= 1
        if ack.event is Event.COMPLETE:
            return self.end(ack.job_id, "completed", now)
        if ack.event is Event.ACK_CANCELLED or held.cancel:
            return self.end(ack.job_id, "cancelled", now)
        if ack.event is Event.SNOOZE:
            return self.back(ack.job_id, now + timedelta(milliseconds=ack.delay_ms), now)
        if ack.event is Event.RELEASE:
            return self.back(ack.job_id, now, now)
        if not ack.retryable or job.attempts >= job.most:
            return self.end(ack.job_id, "dead_letter", now)
        wait = BACKOFF if ack.retry_delay_ms is None else timedelta(milliseconds=ack.retry_delay_ms)
        return self.back(ack.job_id, now + wait, now)

    def back(self, job_id: str, run_at: datetime, now: datetime) -> str:
        job = self.jobs[job_id]
        job.at, job.lease, job.run_at = "entry", None, run_at
        return self.state(job_id, now)

    def end(self, job_id: str, state: str, now: datetime) -> str:
        job = self.jobs[job_id]
        job.at, job.lease, job.ended_at = state, None, now
        self.free(job_id, "pending", "running")
        return state

    # operators

    def found(self, job_id: str) -> Job:
        if job_id not in self.jobs:
            raise ModelError("not_found")
        return self.jobs[job_id]

    def allow(self, job_id: str, *states: str, now: datetime) -> Job:
        job = self.found(job_id)
        if self.state(job_id, now) not in states:
            raise ModelError("invalid_transition")
        return job

    def cancel(self, job_id: str, *, force: bool, now: datetime) -> str:
        job = self.allow(job_id, "pending", "scheduled", "queued", "claimed", "running", now=now)
        if job.lease and not force:
            job.lease.cancel = True
            return self.state(job_id, now)
        if job.lease:
            job.history.append("cancelled")
        return self.end(job_id, "cancelled", now)

    def retry(self, job_id: str, now: datetime) -> str:
        job = self.allow(job_id, "dead_letter", now=now)
        if job.key is not None and job.window != "ttl":
            held = self.keys.get(job.key)
            if held and held[0] != job_id and (held[1] is None or held[1] > now):
                raise ModelError("unique_conflict")
            self.keys[job.key] = (job_id, None)
        job.attempts, job.ended_at = 0, None
        return self.back(job_id, now, now)

    def promote(self, job_id: str, now: datetime) -> str:
        job = self.allow(job_id, "pending", "scheduled", now=now)
        return self.back(job_id, max(job.run_at, now) if job.at == "pending" else now, now)

    def reschedule(self, job_id: str, at: datetime, now: datetime) -> str:
        self.allow(job_id, "pending", "scheduled", "queued", now=now).run_at = max(at, now)
        return self.state(job_id, now)

    def edit(self, job_id: str, priority: int, now: datetime) -> str:
        self.allow(job_id, "pending", "scheduled", "queued", "dead_letter", now=now).priority = priority
        return self.state(job_id, now)

    def delete(self, job_id: str, now: datetime) -> None:
        self.allow(job_id, "pending", "scheduled", "queued", "completed", "cancelled", "dead_letter", now=now)
        self.forget(job_id)

    # scheduler

    def reap(self, now: datetime) -> int:
        lapsed = [job_id for job_id, job in self.jobs.items() if job.lease and job.lease.ends <= now]
        for job_id in lapsed:
            job = self.jobs[job_id]
            job.history.append("lease_expired")
            if job.lease and job.lease.cancel:
                self.end(job_id, "cancelled", now)
            elif job.attempts >= job.most:
                self.end(job_id, "dead_letter", now)
            else:
                self.back(job_id, now + BACKOFF, now)
        return len(lapsed)

    def prune(self, now: datetime) -> tuple[int, int]:
        over = [
            job_id
            for job_id, job in self.jobs.items()
            if job.ended_at is not None and max(job.ended_at + KEEP[job.at], job.until or job.ended_at) <= now
        ]
        for job_id in over:
            self.forget(job_id)
        expired = [key for key, (_, until) in self.keys.items() if until is not None and until <= now]
        for key in expired:
            del self.keys[key]
        return len(over), len(expired)
