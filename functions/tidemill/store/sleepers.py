"""Workers sleep and are woken; only processes that own their connections do (docs/adr/0003)."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.store.base import Adapter


class Sleepers(Adapter):
    """The doorbell's other end."""

    def sleep(self, project_id: str, worker_id: str, queues: Sequence[str]) -> None:
        """From now on an enqueue to these queues notifies the worker's channel, once."""
        self._rows("workers/sleep", {"project_id": project_id, "worker_id": worker_id, "queues": list(queues)})

    def rise(self, worker_id: str) -> None:
        """Nobody notifies the worker any more."""
        self._rows("workers/rise", {"worker_id": worker_id})

    def next_due_secs(self, project_id: str, queues: Sequence[str], horizon_secs: float) -> float | None:
        """Seconds until the next scheduled job within the horizon is due; 0 or less means now."""
        row = self._row("workers/next_due", {"project_id": project_id, "queues": list(queues), "horizon": horizon_secs})
        return None if row is None or row[0] is None else float(row[0])

    def projects(self, project_id: str | None) -> list[tuple[str, str]]:
        """(id, name) of the project with this id, or of the first two."""
        return [(row[0], row[1]) for row in self._rows("workers/projects", {"project_id": project_id})]
