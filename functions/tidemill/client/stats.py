"""A project and its queues in numbers (API.md §4, §7)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tidemill.client.calls import Calls, Thing


class StatCalls(Calls):
    """Mixed into `Client`. Answers come as the API's own JSON objects."""

    def overview(self) -> Thing:
        """The project at a glance: jobs by state, workers, failures, throughput, backlog per queue."""
        found: Thing = self._send("GET", "/v1/stats/overview")
        return found

    def history(self, *, queue: str | None = None, since: datetime | None = None, bucket_ms: int | None = None) -> Thing:
        """What arrived, completed, failed and died, bucket by bucket."""
        given = {"queue": queue, "since": since.isoformat() if since else None, "bucket_ms": bucket_ms}
        found: Thing = self._send("GET", "/v1/stats/history", params={name: value for name, value in given.items() if value is not None})
        return found

    def latency(self, *, queue: str | None = None, window_ms: int | None = None) -> Thing:
        """How long jobs waited and ran: p50, p95, p99."""
        given = {"queue": queue, "window_ms": window_ms}
        found: Thing = self._send("GET", "/v1/stats/latency", params={name: value for name, value in given.items() if value is not None})
        return found

    def job_types(self) -> list[Thing]:
        """The job types that the project has used, by name."""
        return list(self._pages("/v1/job-types", {}))

    def queue_stats(self, name: str) -> Thing:
        """A queue at a glance. NotFound."""
        found: Thing = self._send("GET", f"/v1/queues/{quote(name, safe='')}/stats")
        return found

    def partitions(self, name: str) -> Iterator[Thing]:
        """The queue's partitions by key."""
        return self._pages(f"/v1/queues/{quote(name, safe='')}/partitions", {})

    def weigh_partition(self, name: str, key: str, weight: int) -> Thing:
        """The partition with that weight from now on."""
        path = f"/v1/queues/{quote(name, safe='')}/partitions/{quote(key, safe='')}"
        found: Thing = self._send("PATCH", path, {"weight": weight})
        return found

    def simulate(self, name: str, **rules: Any) -> Thing:
        """The queue's last hour under other rules; fields as in the API: `workers`, `max_concurrency`, `weights`, `limits`, `rates`."""
        found: Thing = self._send("POST", f"/v1/queues/{quote(name, safe='')}/simulate", rules)
        return found
