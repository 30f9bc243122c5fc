"""How one worker behaves."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.domain import limits
from tidemill.domain.errors import Fault, Invalid
from tidemill.runner.app import ISOLATIONS, Isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Checked when made: Invalid lists every fault.

    concurrency: handlers at once. lease_ms: how long a job stays ours without a heartbeat. stop_window_secs: how long running
    jobs may go on after the signal to stop. isolation: for thread jobs, instead of what they were registered with.
    app_path: `module:app`, needed by processes of their own. health_file: its time is renewed while the worker is well.
    ecs_agent: where ECS takes task protection, asked for while leases are held and renewed long before `protection_minutes` end.
    """

    queues: Sequence[str] = ("default",)
    concurrency: int = 16
    name: str = field(default_factory=lambda: socket.gethostname()[:200] or "worker")
    lease_ms: int = 60_000
    stop_window_secs: float = 30.0
    isolation: Isolation | None = None
    app_path: str | None = None
    health_file: Path | None = None
    ecs_agent: str | None = None
    protection_minutes: int = 120

    def __post_init__(self) -> None:
        faults = [
            Fault(("queues", place), f"{name[:200]!r} {limits.NAME_RULE}")
            for place, name in enumerate(self.queues)
            if not limits.is_name(name)
        ]
        bounds = [
            ("queues", len(self.queues), 1, limits.CLAIM_QUEUES),
            ("concurrency", self.concurrency, 1, 10_000),
            ("lease_ms", self.lease_ms, *limits.LEASE_MS),
            ("stop_window_secs", self.stop_window_secs, 0, 43_200),
        ]
        faults += [
            Fault((what,), f"{value!r} is outside {low:,} to {high:,}") for what, value, low, high in bounds if not low <= value <= high
        ]
        if not 1 <= len(self.name) <= 200:
            faults.append(Fault(("name",), f"has {len(self.name)} characters, outside 1 to 200"))
        if self.isolation is not None and self.isolation not in ISOLATIONS:
            faults.append(Fault(("isolation",), f"{self.isolation!r} is none of {', '.join(ISOLATIONS)}"))
        if faults:
            raise Invalid(faults)
