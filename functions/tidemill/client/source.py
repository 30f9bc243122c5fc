"""`HttpSource`: a worker's job source over HTTPS, for workers that cannot or should not reach the database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tidemill.client import wire
from tidemill.client.retry import Breaker, RetryRule
from tidemill.client.transport import Call, Transport
from tidemill.domain.errors import NotFound, TidemillError, Unavailable
from tidemill.domain.jobs import (
    Ack,
    AckResult,
    ClaimedJob,
    Enqueued,
    Heartbeat,
    HeartbeatAnswer,
    JobSpec,
    Lease,
    LogLine,
    ParentResult,
    Registered,
    Registration,
)
from tidemill.domain.schedule import Spec, object_of

if TYPE_CHECKING:
    import httpx

WAIT_MS: Final = 5_000
GRACE_SECS: Final = 1.0


class HttpSource:
    """Implements ports.JobSource over `POST /v1/workers`, `/v1/claims`, `/v1/acks` and the reports.

    wait_ms: how long an idle worker's claim is held open by the server (0 … 20,000). Longer means fewer requests; a stop
    may have to wait for the claim that is out. 0: no long poll, the worker asks again after each rest.
    timeout: seconds until a call without an answer counts as failed; keep it well below the lease.

    Claims, acks and heartbeats are sent once: who calls keeps them and repeats. Reports are tried again where that is safe.
    During an outage the circuit opens for 1 to 5 s at a time, so that nothing waits long after the API is back.
    A claim whose answer is lost on its way cannot be given back from here: those jobs run again when their lease ends.
    """

    def __init__(
        self, url: str, api_key: str, *, wait_ms: int = WAIT_MS, timeout: float = 10.0, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.is_spent = False  # what is left is for the server to know
        self._transport = Transport(
            url, api_key, timeout=timeout, rule=RetryRule(retries=2), breaker=Breaker(open_secs=1.0, longest_secs=5.0), carrier=transport
        )
        self._wait_ms, self._longest_join = wait_ms, wait_ms / 1000 + timeout
        self._registration: Registration | None = None
        self._worker_id = ""
        self._limit = 1
        self._bell: SimpleQueue[str] = SimpleQueue()  # its `put` is safe in a signal handler
        self._lock = threading.Lock()
        self._poller: threading.Thread | None = None
        self._came: list[ClaimedJob] = []
        self._taken = threading.Event()
        self._is_leaving = False

    def register(self, registration: Registration) -> Registered:
        """Makes this source a worker."""
        answer = self._transport.send(Call("POST", "/v1/workers", wire.registration(registration)))
        with self._lock:
            strays, self._came = self._came, []
            self._registration, self._worker_id = registration, answer["worker_id"]
        self._release(strays)
        return Registered(answer["worker_id"], answer["heartbeat_interval_ms"], answer["lease_ms"])

    def declare_schedules(self, declared_by: str, specs: Mapping[str, Spec]) -> Mapping[str, int]:
        """Needs a key with the scope `admin`; Forbidden otherwise."""
        body = {"declared_by": declared_by, "schedules": {name: object_of(spec) for name, spec in specs.items()}}
        counts: Mapping[str, int] = self._transport.send(Call("POST", "/v1/schedules/sync", body))
        return counts

    def claim(self, limit: int) -> list[ClaimedJob]:
        """What the long poll of `rest` has brought, or what is due at this moment. Empty while that poll is still out."""
        with self._lock:
            self._limit = limit
            if self._came:
                jobs, self._came = self._came[:limit], self._came[limit:]
                self._taken.set()
                return jobs
            if self._poller is not None and not self._is_leaving:
                return []
        return self._ask(self._worker_id, limit, 0)

    def rest(self, timeout_s: float) -> None:
        """Waits on a claim that the server holds open until a job is there; it stays out when this returns early."""
        ends_at = time.monotonic() + timeout_s
        has_failed = False
        while not has_failed:
            with self._lock:
                if self._came or self._is_leaving:
                    return
                if self._poller is None and self._wait_ms:
                    self._start_poll()
            try:
                rung = self._bell.get(timeout=max(0.0, ends_at - time.monotonic()))
            except Empty:
                return
            if rung == "wake":
                return
            has_failed = rung == "failed"

    def wake(self) -> None:
        """Ends the `rest` that is on, or the next one."""
        self._bell.put("wake")

    def settle(self, acks: Sequence[Ack]) -> list[AckResult]:
        """One result per ack, in order, in as many calls as 4 MB each make it."""
        results: list[AckResult] = []
        for part in wire.ack_parts(acks):
            answer = self._transport.send(Call("POST", "/v1/acks", {"acks": part}, is_tried_once=True))
            results += [AckResult(r["job_id"], r["status"], r.get("state"), r.get("code")) for r in answer["results"]]
        return results

    def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Extends the leases and tells what is asked of this worker."""
        path = f"/v1/workers/{self._worker_id}/heartbeat"
        return wire.heartbeat_answer(self._transport.send(Call("POST", path, wire.heartbeat(beat), is_tried_once=True)))

    def progress(self, lease: Lease, current: int, total: int | None, message: str | None) -> None:
        """Stores how far the job is."""
        self._report(lease, "progress", {"current": current, "total": total, "message": message})

    def checkpoint(self, lease: Lease, data_json: str, cursor: str | None) -> None:
        """Stores what the next attempt starts from."""
        self._report(lease, "checkpoint", {"data": wire.parsed(data_json), "cursor": cursor})

    def output(self, lease: Lease, data_json: str) -> None:
        """Stores a partial result."""
        self._report(lease, "output", {"data": wire.parsed(data_json)})

    def logs(self, lease: Lease, lines: Sequence[LogLine]) -> None:
        """Stores log lines. Not repeated by itself when the answer is lost: they would be there twice."""
        self._report(lease, "logs", {"lines": wire.log_lines(lines)}, repeatable=False)

    def children(self, lease: Lease, jobs: Sequence[JobSpec]) -> list[Enqueued]:
        """Enqueues jobs that stand or fall with the lease. Repeated by itself only if each has an idempotency key."""
        is_safe = all(job.get("idempotency_key") for job in jobs)
        answer = self._report(lease, "children", {"jobs": [dict(job) for job in jobs]}, repeatable=is_safe)
        return [wire.enqueued(item) for item in answer["results"]]

    def parents(self, lease: Lease) -> list[ParentResult]:
        """How the jobs that this one depended on stand, and what they returned, in as many calls as it takes."""
        found: list[ParentResult] = []
        while True:
            answer = self._report(lease, "parents", {"after": found[-1].job_id} if found else {})
            if not answer["items"]:
                return found
            found += [wire.parent_result(item) for item in answer["items"]]

    def on_word(self, heed: Callable[[], None]) -> None:
        """Never calls: over HTTPS the next beat tells."""

    def release_strays(self, held: Collection[str]) -> int:  # noqa: ARG002 - the port's signature
        """0: over HTTPS a lease is known by its token alone, and a lost answer's tokens are lost."""
        return 0

    def deregister(self) -> None:
        """Removes the worker, which releases what it holds, after the claim that is out has come back."""
        with self._lock:
            self._is_leaving = True
            poller = self._poller
        self.wake()
        if poller is not None:
            poller.join(self._longest_join)
        with suppress(NotFound):  # its row is gone already, and so are its leases
            self._transport.send(Call("DELETE", f"/v1/workers/{self._worker_id}"))

    def close(self) -> None:
        """Frees the connections; any call under way fails with Unavailable."""
        self._is_leaving = True
        self.wake()
        self._transport.close()

    def _report(self, lease: Lease, kind: str, body: dict[str, Any], *, repeatable: bool = True) -> Any:
        path = f"/v1/jobs/{quote(lease.job_id, safe='')}/{kind}"
        return self._transport.send(Call("POST", path, {"lease_token": lease.lease_token, **body}, repeatable=repeatable))

    def _ask(self, worker_id: str, limit: int, wait_ms: int) -> list[ClaimedJob]:
        assert self._registration is not None, "register comes first"
        if self._transport.is_failing:
            wait_ms = 0  # a probe that tells soon
        body = wire.claim(self._registration, worker_id, limit, wait_ms)
        answer = self._transport.send(Call("POST", "/v1/claims", body, is_tried_once=True, waits_ms=wait_ms))
        return [wire.claimed_job(job) for job in answer["jobs"]]

    def _start_poll(self) -> None:
        self._taken.clear()
        self._poller = threading.Thread(target=self._poll, args=(self._worker_id, self._limit), name="tidemill-claims", daemon=True)
        self._poller.start()

    def _poll(self, worker_id: str, limit: int) -> None:
        """One long poll. Jobs that nobody takes within a second (the worker is quiet, or stopping) are given back."""
        jobs: list[ClaimedJob] = []
        outcome = "polled"
        try:
            jobs = self._ask(worker_id, limit, self._wait_ms)
        except TidemillError:
            outcome = "failed"
        with self._lock:
            self._poller = None
            strays = jobs if self._is_leaving else []
            self._came = [] if self._is_leaving else jobs
        self._bell.put(outcome)
        if jobs and not strays and not self._taken.wait(GRACE_SECS):
            with self._lock:
                strays, self._came = self._came, []
        self._release(strays)

    def _release(self, jobs: Sequence[ClaimedJob]) -> None:
        acks = [{"job_id": job.job_id, "lease_token": job.lease_token, "outcome": "release"} for job in jobs]
        if acks:
            with suppress(Unavailable):  # then they come back when their lease ends
                self._transport.send(Call("POST", "/v1/acks", {"acks": acks}))
