"""Rate classes and standing limits over the API (API.md §4)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tidemill.client.calls import Calls, Thing


class LimitCalls(Calls):
    """Mixed into `Client`. Rate classes and limits come as the API's own JSON objects."""

    def list_rate_classes(self) -> list[Thing]:
        """All rate classes of the project, with the tokens that they have now."""
        return list(self._pages("/v1/rate-classes", {}))

    def get_rate_class(self, name: str) -> Thing:
        """One rate class. NotFound."""
        found: Thing = self._send("GET", _path("rate-classes", name))
        return found

    def put_rate_class(self, name: str, *, limit: int, window_ms: int, burst: int | None = None, is_paused: bool | None = None) -> Thing:
        """`limit` tokens per `window_ms`, at most `burst` at once (None: `limit`); `is_paused` None: as it is. What waits follows."""
        body = {"limit": limit, "window_ms": window_ms, "burst": burst, "is_paused": is_paused}
        found: Thing = self._send("PUT", _path("rate-classes", name), _given(body))
        return found

    def pause_rate_class(self, name: str) -> Thing:
        """The kill switch: nothing of the class is claimed until it is resumed. NotFound."""
        return self._pause(name, True)

    def resume_rate_class(self, name: str) -> Thing:
        """Ends the pause; the bucket fills from zero. NotFound."""
        return self._pause(name, False)

    def delete_rate_class(self, name: str) -> None:
        """Removes it: its jobs are free of it. NotFound."""
        self._send("DELETE", _path("rate-classes", name))

    def list_limits(self) -> list[Thing]:
        """All standing limits of the project, with what counts towards them now."""
        return list(self._pages("/v1/concurrency-limits", {}))

    def get_limit(self, name: str) -> Thing:
        """One standing limit. NotFound."""
        found: Thing = self._send("GET", _path("concurrency-limits", name))
        return found

    def put_limit(
        self, name: str, *, max_concurrent: int, queue: str | None = None, job_type: str | None = None, on_saturated: str | None = None
    ) -> Thing:
        """At most `max_concurrent` jobs of a queue, or of a job type, at once; what runs already counts. `on_saturated` None: `queue`."""
        body = {"max_concurrent": max_concurrent, "queue": queue, "job_type": job_type, "on_saturated": on_saturated}
        found: Thing = self._send("PUT", _path("concurrency-limits", name), _given(body))
        return found

    def delete_limit(self, name: str) -> None:
        """Removes it: what waited for it may go. NotFound."""
        self._send("DELETE", _path("concurrency-limits", name))

    def _pause(self, name: str, is_paused: bool) -> Thing:
        now = self.get_rate_class(name)
        return self.put_rate_class(name, limit=now["limit"], window_ms=now["window_ms"], burst=now["burst"], is_paused=is_paused)


def _path(collection: str, name: str) -> str:
    return f"/v1/{collection}/{quote(name, safe='')}"


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
