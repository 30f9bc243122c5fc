"""Batches: jobs that end together, and jobs that are created when they have (API.md §6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from tidemill.client.calls import Calls
from tidemill.client.fields import job_objects, plain
from tidemill.client.models import Batch, BulkAnswer, BulkItem


class BatchCalls(Calls):
    """Mixed into `Client`."""

    def create_batch(
        self,
        name: str = "",
        *,
        jobs: Iterable[Mapping[str, Any]] = (),
        callbacks: Mapping[str, Mapping[str, Any]] | None = None,
        seal: bool = False,
    ) -> Batch:
        """A new batch with its first jobs (at most 1,000), all or nothing. callbacks: job objects for `on_complete`, `on_success`
        and `on_failure`; they get the headers `tidemill-batch-id` and `tidemill-batch-callback`. seal: no more jobs come.

        Never repeated by itself after a lost answer, which would make two batches.
        """
        body = {
            "name": name,
            "jobs": job_objects(jobs),
            "callbacks": {key: plain(job) for key, job in (callbacks or {}).items()},
            "seal": seal,
        }
        return Batch.read(self._send("POST", "/v1/batches", body, repeatable=False)["batch"])

    def add_to_batch(self, batch_id: str, jobs: Iterable[Mapping[str, Any]]) -> BulkAnswer:
        """More jobs (at most 1,000) for an open batch, all or nothing. InvalidTransition once it takes no more."""
        objects = job_objects(jobs)
        for job in objects:
            self._give_key(job)
        is_safe = all("idempotency_key" in job for job in objects)
        answer = self._send("POST", _path(batch_id, "jobs"), {"jobs": objects}, repeatable=is_safe)
        return BulkAnswer([BulkItem.read(item) for item in answer["results"]], answer["created"], answer["deduplicated"], answer["failed"])

    def get_batch(self, batch_id: str) -> Batch:
        """The batch with its counters. NotFound."""
        return Batch.read(self._send("GET", _path(batch_id)))

    def list_batches(self) -> Iterator[Batch]:
        """All batches, newest first, page by page as they are asked for."""
        return (Batch.read(item) for item in self._pages("/v1/batches", {}))

    def seal_batch(self, batch_id: str) -> Batch:
        """No more jobs come; the callbacks follow once all have ended. Sealing again changes nothing."""
        return Batch.read(self._send("POST", _path(batch_id, "seal"), {}))

    def cancel_batch(self, batch_id: str) -> Batch:
        """Cancels what has not begun and asks what runs to stop; no callback is created. Cancelling again goes on with it."""
        return Batch.read(self._send("POST", _path(batch_id, "cancel"), {}))


def _path(batch_id: str, verb: str = "") -> str:
    return f"/v1/batches/{quote(str(batch_id), safe='')}" + (f"/{verb}" if verb else "")
