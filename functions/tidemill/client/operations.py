"""Bulk operations over the API: plan, apply, look, abort, undo (API.md §7)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tidemill.client.calls import Calls, Thing


class OperationCalls(Calls):
    """Mixed into `Client`. Operations come as the API's own JSON objects."""

    def plan_operation(self, action: str, *, dry_run: bool = True, **conditions: Any) -> Thing:
        """What `retry`, `cancel`, `delete`, `discard` or `promote` would do to the jobs that meet all conditions (those of the job list).

        dry_run=False: it begins at once. ValidationError for no condition, or an unknown one. Never repeated by itself.
        """
        given = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in conditions.items()}
        body = {"action": action, "filter": given, "dry_run": dry_run}
        found: Thing = self._send("POST", "/v1/operations", body, repeatable=False)
        return found

    def apply_operation(self, operation_id: str, *, allow_drift: bool = False) -> Thing:
        """The scheduler begins; PlanDrifted if the match has grown by more than 10 % since. Applying again changes nothing."""
        return self._operation("POST", operation_id, "apply", {"allow_drift": allow_drift})

    def get_operation(self, operation_id: str) -> Thing:
        """The operation, and how far it is. NotFound."""
        return self._operation("GET", operation_id)

    def list_operations(self) -> Iterator[Thing]:
        """All operations, newest first, page by page as they are asked for."""
        return self._pages("/v1/operations", {})

    def abort_operation(self, operation_id: str) -> Thing:
        """Ends it between two batches; what it has done stays done."""
        return self._operation("POST", operation_id, "abort", {})

    def undo_operation(self, operation_id: str) -> Thing:
        """The jobs of a cancel or a discard go back where they were, as far as they are kept."""
        return self._operation("POST", operation_id, "undo", {})

    def _operation(self, method: str, operation_id: str, verb: str = "", body: Any = None) -> Thing:
        path = f"/v1/operations/{quote(str(operation_id), safe='')}" + (f"/{verb}" if verb else "")
        found: Thing = self._send(method, path, body)
        return found
