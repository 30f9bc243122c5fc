"""Schedules over the API: put, edit, look at, steer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tidemill.client.calls import Calls, Thing


class ScheduleCalls(Calls):
    """Mixed into `Client`. Schedules come as the API's own JSON objects (API.md §5)."""

    def list_schedules(self) -> list[Thing]:
        """All schedules of the project, by name."""
        return list(self._pages("/v1/schedules", {}))

    def get_schedule(self, name: str) -> Thing:
        """One schedule. NotFound."""
        return self._schedule("GET", name)

    def put_schedule(self, name: str, *, job: Mapping[str, Any], **fields: Any) -> Thing:
        """Makes the schedule what this says; unchanged, it keeps its phase. `cron` or `every_ms`, `timezone`, `on_missed` …"""
        given = {key: value.isoformat() if isinstance(value, datetime) else value for key, value in fields.items()}
        return self._schedule("PUT", name, body={**given, "job": dict(job)})

    def edit_schedule(self, name: str, **changes: Any) -> Thing:
        """The schedule with these fields changed; fields of `job` are laid over the stored ones."""
        return self._schedule("PATCH", name, body=changes)

    def delete_schedule(self, name: str) -> None:
        """Removes it; occurrences that are not due yet are cancelled."""
        self._send("DELETE", _path(name))

    def pause_schedule(self, name: str) -> Thing:
        """It fires no more until it is resumed."""
        return self._schedule("POST", name, "pause", {})

    def resume_schedule(self, name: str) -> Thing:
        """It fires again, first at the next instant from now."""
        return self._schedule("POST", name, "resume", {})

    def trigger_schedule(self, name: str) -> Thing:
        """One job of it now: `{"job", "deduplicated"}`. Never repeated by itself."""
        return self._schedule("POST", name, "trigger", {}, repeatable=False)

    def schedule_events(self, name: str) -> list[Thing]:
        """Its last 100 fires, skips, cancellations and errors, newest first."""
        found: list[Thing] = self._schedule("GET", name, "events")["items"]
        return found

    def preview_schedule(self, name: str, n: int = 10) -> Thing:
        """When it fires next: `{"fires", "description", "transitions"}`."""
        found: Thing = self._send("GET", _path(name, "preview"), params={"n": n})
        return found

    def preview_timing(self, **timing: Any) -> Thing:
        """The same for a timing that is not stored: `cron` or `every_ms`, `timezone`, `after`, `n`."""
        given = {key: value.isoformat() if isinstance(value, datetime) else value for key, value in timing.items()}
        found: Thing = self._send("POST", "/v1/schedules/preview", given)
        return found

    def _schedule(self, method: str, name: str, verb: str = "", body: Any = None, *, repeatable: bool = True) -> Thing:
        found: Thing = self._send(method, _path(name, verb), body, repeatable=repeatable)
        return found


def _path(name: str, verb: str = "") -> str:
    return f"/v1/schedules/{quote(name, safe='')}" + (f"/{verb}" if verb else "")
