"""Workers and their leases stay alive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tidemill.domain.jobs import Heartbeat, Lease, LeaseBeat, Registration
from tidemill.store.base import Adapter, rounds

SAMPLE_MS = 10_000


class Heartbeats(Adapter):
    """Implements ports.HeartbeatStore."""

    def extend(self, leases: Sequence[Lease], *, now: datetime | None) -> list[LeaseBeat]:
        beats: list[LeaseBeat] = []
        for each_once in rounds(sorted(set(leases)), lambda lease: lease.job_id):
            params = {"job_ids": [x.job_id for x in each_once], "tokens": [x.lease_token for x in each_once], "now": now}
            beats += [LeaseBeat(*row) for row in self._rows("leases/heartbeat", params)]
        return beats

    def beat(self, project_id: str, worker_id: str, beat: Heartbeat, *, now: datetime | None) -> str | None:
        row = self._row(
            "workers/beat",
            {
                "project_id": project_id,
                "worker_id": worker_id,
                "active": beat.active_job_count,
                "cpu": beat.cpu_percent,
                "memory": beat.memory_mb,
                "status": beat.status,
                "sample_ms": SAMPLE_MS,
                "now": now,
            },
        )
        return row[0] if row else None

    def register(self, project_id: str, worker_id: str, registration: Registration, *, now: datetime | None) -> set[str]:
        rows = self._rows(
            "workers/register",
            {
                "project_id": project_id,
                "worker_id": worker_id,
                "name": registration.name,
                "hostname": registration.hostname,
                "pid": registration.pid,
                "version": registration.version,
                "queues": list(registration.queues),
                "job_types": list(registration.job_types) if registration.job_types is not None else None,
                "max_concurrency": registration.max_concurrency,
                "lease_ms": registration.lease_ms,
                "now": now,
            },
        )
        return {row[0] for row in rows}

    def deregister(self, project_id: str, worker_id: str) -> bool:
        return self._row("workers/remove", {"project_id": project_id, "worker_id": worker_id}) is not None

    def leases_of(self, project_id: str, worker_id: str, limit: int) -> list[Lease]:
        params = {"project_id": project_id, "worker_id": worker_id, "limit": limit}
        return [Lease(*row) for row in self._rows("leases/of_worker", params)]

    def command(self, project_id: str, worker_id: str, command: str) -> bool:
        params = {"project_id": project_id, "worker_id": worker_id, "command": command}
        return self._row("workers/command", params) is not None
