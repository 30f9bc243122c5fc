"""What an operator's tools ask for: queues, quarantine, workers, dead letters, the scheduler's pass, the version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from tidemill.client.calls import Calls, Thing


class OperatorCalls(Calls):
    """Mixed into `Client`. Things come as the API's own JSON objects (API.md §3, §4)."""

    def list_queues(self) -> list[Thing]:
        """All queues of the project."""
        return list(self._pages("/v1/queues", {}))

    def get_queue(self, name: str) -> Thing:
        """One queue. NotFound."""
        return self._thing("GET", _named("queues", name))

    def create_queue(self, name: str, **fields: Any) -> Thing:
        """A new queue; fields as in API.md §4 (`priority`, `weight`, `visibility_timeout_secs` …)."""
        return self._thing("POST", "/v1/queues", {"name": name, **fields}, repeatable=False)

    def edit_queue(self, name: str, **changes: Any) -> Thing:
        """The queue with these fields changed."""
        return self._thing("PATCH", _named("queues", name), changes)

    def pause_queue(self, name: str) -> Thing:
        """Nothing more is claimed from it; what runs goes on."""
        return self._thing("POST", _named("queues", name, "pause"), {})

    def resume_queue(self, name: str) -> Thing:
        """Ends the pause."""
        return self._thing("POST", _named("queues", name, "resume"), {})

    def delete_queue(self, name: str, *, force: bool = False) -> Thing | None:
        """Removes an empty queue; QueueNotEmpty otherwise. With `force`: the bulk operation that empties it and removes it."""
        found: Thing | None = self._send("DELETE", _named("queues", name), params={"force": "true"} if force else None)
        return found

    def list_quarantine(self) -> Iterator[Thing]:
        """The quarantined fingerprints, the newest first, page by page as they are asked for."""
        return self._pages("/v1/quarantine", {})

    def get_quarantine(self, fingerprint: str) -> Thing:
        """One quarantined fingerprint. NotFound."""
        return self._thing("GET", _named("quarantine", fingerprint))

    def release_quarantine(self, fingerprint: str) -> Thing:
        """Ends the quarantine: its jobs go back (`moved` at once, the rest in the scheduler's passes). NotFound."""
        return self._thing("POST", _named("quarantine", fingerprint, "release"), {})

    def discard_quarantine(self, fingerprint: str) -> Thing:
        """Cancels the jobs that are set aside; later ones are still set aside. NotFound."""
        return self._thing("POST", _named("quarantine", fingerprint, "discard"), {})

    def list_workers(self, **filters: Any) -> list[Thing]:
        """The workers, live and stale, with versions and load. Filters: `state` (live, stale), `name`, `version`, `queue`; None = any."""
        return list(self._pages("/v1/workers", _given(filters)))

    def get_worker(self, worker_id: str) -> Thing:
        """One worker. NotFound."""
        return self._thing("GET", _named("workers", worker_id))

    def command_worker(self, worker_id: str, command: str) -> None:
        """Leaves `quiet`, `resume`, `restart` or `terminate` for its next heartbeat."""
        self._send("POST", _named("workers", worker_id, "command"), {"command": command})

    def list_dead_letters(self, *, page_size: int = 50, **filters: Any) -> Iterator[Thing]:
        """Dead letters that nobody has settled, the latest first. Filters as of jobs (API.md §2), and `error_group`; None = any."""
        return self._pages("/v1/dead-letters", {"limit": page_size, **_given(filters)})

    def list_error_groups(self, *, page_size: int = 200, **filters: Any) -> Iterator[Thing]:
        """Kinds of errors with dead letters, the newest kind first. Filters: `queue`, `job_type`, `job_type_prefix`, `error_class`."""
        return self._pages("/v1/dead-letters", {"group_by": "error", "limit": page_size, **_given(filters)})

    def resolve_dead_letter(self, job_id: str, action: str, *, note: str | None = None) -> Thing:
        """`retry` starts the dead job anew, `discard` leaves it dead and settled. NotFound, InvalidTransition, UniqueConflict."""
        return self._thing("POST", _named("dead-letters", job_id, "resolve"), _given({"action": action, "note": note}), repeatable=False)

    def tick(self) -> Thing:
        """Runs one scheduler pass now; counts and errors by phase."""
        found: Thing = self._send("POST", "/v1/tick", {})
        return found

    def version(self) -> Thing:
        """What runs there."""
        found: Thing = self._send("GET", "/v1/version")
        return found

    def _thing(self, method: str, path: str, body: Any = None, *, repeatable: bool = True) -> Thing:
        found: Thing = self._send(method, path, body, repeatable=repeatable)
        return found


def _named(collection: str, name: str, verb: str = "") -> str:
    return f"/v1/{collection}/{quote(name, safe='')}" + (f"/{verb}" if verb else "")


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
