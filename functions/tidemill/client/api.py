"""`Client`: the HTTP API as Python methods. What a job is and may be is told by API.md §2; errors by `problems`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self, Unpack
from urllib.parse import quote

from tidemill.client.batches import BatchCalls
from tidemill.client.fields import JobFields, chunks, instant, job_object, job_objects, plain
from tidemill.client.keys import KeyCalls
from tidemill.client.limits import LimitCalls
from tidemill.client.models import BulkAnswer, BulkItem, Enqueued, Execution, Job
from tidemill.client.operations import OperationCalls
from tidemill.client.operator import OperatorCalls
from tidemill.client.policies import PolicyCalls
from tidemill.client.retry import Breaker, RetryRule
from tidemill.client.schedules import ScheduleCalls
from tidemill.client.stats import StatCalls
from tidemill.client.transport import Call, Transport
from tidemill.client.webhooks import WebhookCalls
from tidemill.domain import limits
from tidemill.domain.errors import OutOfRange
from tidemill.observe import traces

if TYPE_CHECKING:
    import httpx

KEY_PREFIX: Final = "auto:"


class Client(OperatorCalls, OperationCalls, ScheduleCalls, BatchCalls, KeyCalls, LimitCalls, PolicyCalls, StatCalls, WebhookCalls):
    """One project's queue. Thread-safe: share one among all threads; close it, or use it as a context manager.

    timeout: seconds for connecting and for each silence while reading. retries: further tries after the first, with
    exponential backoff and full jitter; a `Retry-After` of up to 30 s is waited out.

    **What is tried again.** Calls that never left, and 429, always. Calls that may have been carried out (503, a broken
    connection) only where a repeat is safe: all GETs, PATCH, DELETE, cancel, promote, reschedule, and enqueues with an
    idempotency key. `enqueue` and `enqueue_many` therefore give each job without one a random key (`auto:<uuid>`), so that a
    lost answer never makes two jobs. It costs one more narrow row per job (about 0.3 kB, kept as long as the job) and a fourth
    (one job) to two fifths (1,000 jobs) of the database's enqueue rate; `safe_enqueue=False` saves it, and then only calls that
    never left are repeated. `retry` and `rerun` of a job are never repeated by themselves.

    After 5 failures in a row (503 or no answer) calls raise CircuitOpen at once until a probe succeeds, see `retry.Breaker`.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float = 30.0,
        retries: int = 4,
        safe_enqueue: bool = True,
        breaker: Breaker | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`transport`: another way to carry requests, such as httpx.MockTransport in tests."""
        self._transport = Transport(url, api_key, timeout=timeout, rule=RetryRule(retries=retries), breaker=breaker, carrier=transport)
        self._safe_enqueue = safe_enqueue

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._transport.url!r})"

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def enqueue(self, job_type: str, payload: Any = None, **fields: Unpack[JobFields]) -> Enqueued:
        """The new job, or the one that answers for its key (`deduplicated`). Invalid lists every faulty field."""
        job = job_object(job_type, payload, fields)
        own_key = self._give_key(job)
        with traces.enqueuing([job]):
            answer = self._send("POST", "/v1/jobs", job, repeatable="idempotency_key" in job)
        found = Job.read(answer["job"])
        # Our own key cannot have been used before: a match is the first try of this very call, whose answer was lost.
        is_other = bool(answer["deduplicated"]) and (own_key is None or found.idempotency_key != own_key)
        return Enqueued(found, is_other)

    def enqueue_many(self, jobs: Iterable[Mapping[str, Any]], *, atomic: bool = True) -> BulkAnswer:
        """One item per job, in order. `jobs`: objects with `job_type`, `payload` and the other fields.

        atomic: all or nothing, at most 1,000 jobs and 4 MB; Invalid lists every bad one. Otherwise the good ones go in and
        any number may be given: they travel in as many calls as it takes (an error from one leaves those before it done).
        """
        objects = job_objects(jobs)
        for job in objects:
            self._give_key(job)
        if atomic and len(objects) > limits.BULK_JOBS:
            raise OutOfRange("jobs", value=len(objects), low=0, high=limits.BULK_JOBS)
        with traces.enqueuing(objects):
            if not atomic:
                return _joined([self._bulk(part, atomic=False) for part in chunks(objects)])
            return self._bulk(objects, atomic=True) if objects else _joined([])

    def get_job(self, job_id: str) -> Job:
        """The job with payload, result, progress, checkpoint, output, lease and allowed `actions`. NotFound."""
        return Job.read(self._send("GET", _path(job_id)))

    def list_jobs(self, *, page_size: int = 200, include_payload: bool = False, **filters: Any) -> Iterator[Job]:
        """All jobs that match, page by page as they are asked for: filters and `sort` as in API.md §2 (`queue`, `job_type`,
        `state` (one or several), `tag`, `created_after`, `sort="run_at"` …).
        """
        query = _query(filters) | {"limit": page_size} | ({"include": "payload"} if include_payload else {})
        return (Job.read(item) for item in self._pages("/v1/jobs", query))

    def executions(self, job_id: str) -> list[Execution]:
        """The ended attempts that are kept (the last 100)."""
        return [Execution.read(item) for item in self._pages(_path(job_id, "executions"), {})]

    def logs(self, job_id: str, **filters: Any) -> Iterator[Mapping[str, Any]]:
        """The log lines (`ts`, `level`, `message`), oldest first. filters: `after`, `level`."""
        return self._pages(_path(job_id, "logs"), _query(filters))

    def events(self, job_id: str) -> list[Mapping[str, Any]]:
        """The job's timeline."""
        return list(self._pages(_path(job_id, "events"), {}))

    def explain(self, job_id: str) -> Mapping[str, Any]:
        """Why the job does not run (API.md §7): `state`, `admissible`, `blocked_by`, `position`, `estimated_start_at`, `notes`."""
        found: Mapping[str, Any] = self._send("GET", _path(job_id, "explain"))
        return found

    def cancel(self, job_id: str, *, force: bool = False) -> Job:
        """The job after it: cancelled, or still running with the cancel asked. force: ends a running one's lease at once."""
        return self._job("POST", _path(job_id, "cancel"), {"force": force})

    def retry(self, job_id: str) -> Job:
        """A dead job goes back to its first attempt. UniqueConflict if its key is held again; InvalidTransition if it is not dead."""
        return self._job("POST", _path(job_id, "retry"), {}, repeatable=False)

    def promote(self, job_id: str) -> Job:
        """A pending or scheduled job becomes due now."""
        return self._job("POST", _path(job_id, "promote"), {}, repeatable=False)

    def reschedule(self, job_id: str, run_at: datetime | str) -> Job:
        """A waiting job becomes due at `run_at`."""
        return self._job("POST", _path(job_id, "reschedule"), {"run_at": instant("run_at", run_at)})

    def rerun(self, job_id: str) -> Enqueued:
        """A fresh copy of the job, due now, without its keys."""
        answer = self._send("POST", _path(job_id, "rerun"), {}, repeatable=False)
        return Enqueued(Job.read(answer.get("job", answer)), bool(answer.get("deduplicated")))

    def edit(self, job_id: str, **changes: Any) -> Job:
        """Changes `payload`, `priority`, `tags` or `schema_version` of a job that is not leased and has not ended for good."""
        return self._job("PATCH", _path(job_id), plain(changes))

    def delete(self, job_id: str) -> None:
        """Removes a job that is not leased, with its history. NotFound if it is not there (any more)."""
        self._send("DELETE", _path(job_id))

    def _give_key(self, job: dict[str, Any]) -> str | None:
        if not self._safe_enqueue or job.get("idempotency_key") is not None:
            return None
        job["idempotency_key"] = key = f"{KEY_PREFIX}{uuid.uuid4()}"
        return key

    def _bulk(self, jobs: list[dict[str, Any]], *, atomic: bool) -> BulkAnswer:
        is_repeatable = all("idempotency_key" in job for job in jobs)
        answer = self._send("POST", "/v1/jobs/bulk", {"jobs": jobs, "atomic": atomic}, repeatable=is_repeatable)
        items = [BulkItem.read(item) for item in answer["results"]]
        return BulkAnswer(items, answer["created"], answer["deduplicated"], answer["failed"])

    def _job(self, method: str, path: str, body: Any, *, repeatable: bool = True) -> Job:
        answer = self._send(method, path, body, repeatable=repeatable)
        return Job.read(answer.get("job", answer))

    def _pages(self, path: str, query: Mapping[str, Any]) -> Iterator[Any]:
        cursor: str | None = None
        while True:
            page = self._send("GET", path, params=dict(query) | ({"cursor": cursor} if cursor else {}))
            yield from page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def _send(self, method: str, path: str, body: Any = None, *, params: Mapping[str, Any] | None = None, repeatable: bool = True) -> Any:
        return self._transport.send(Call(method, path, body, params or {}, repeatable=repeatable))


def _path(job_id: str, verb: str = "") -> str:
    return f"/v1/jobs/{quote(str(job_id), safe='')}" + (f"/{verb}" if verb else "")


def _query(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Filters as query parameters: sequences are repeated, instants are text, None is left out."""
    found: dict[str, Any] = {}
    for name, value in filters.items():
        match value:
            case None:
                continue
            case datetime():
                found[name] = instant(name, value)
            case bool():
                found[name] = "true" if value else "false"
            case list() | tuple() | set() | frozenset():
                found[name] = [str(item) for item in value]
            case _:
                found[name] = str(value)
    return found


def _joined(parts: list[BulkAnswer]) -> BulkAnswer:
    """Several calls' answers as one, with the positions of the whole."""
    items: list[BulkItem] = []
    for part in parts:
        start = len(items)
        items += [replace(item, index=start + item.index, error=_moved(item.error, start) if item.error else None) for item in part.results]
    return BulkAnswer(items, sum(p.created for p in parts), sum(p.deduplicated for p in parts), sum(p.failed for p in parts))


def _moved(error: Mapping[str, Any], start: int) -> Mapping[str, Any]:
    match error.get("loc"):
        case ["jobs", int() as index, *rest]:
            return {**error, "loc": ["jobs", start + index, *rest]}
        case _:
            return error
