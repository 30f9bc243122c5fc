"""A claimed job on its way through this worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.domain.jobs import ClaimedJob, Lease
from tidemill.runner.app import Execute, JobType


class Task:
    """Times are of the monotonic clock, in seconds. Each flag is set once, by whoever learns it, and read by the handler's thread.

    `cancelled`: asked to stop (by an operator, a time-out, a lost lease or the end of the stop window). `lost`: the lease is not
    ours any more, so nothing may be reported. `interrupt` ends the handler from outside where its isolation can do that.
    """

    __slots__ = ("cancelled", "claimed_at", "deadline", "execute", "interrupt", "job", "log_lines", "lost", "started_at", "type")

    def __init__(self, job: ClaimedJob, job_type: JobType | None, execute: Execute | None, claimed_at: float) -> None:
        self.job = job
        self.type = job_type
        self.execute = execute
        self.claimed_at = claimed_at
        self.started_at = 0.0
        self.deadline: float | None = None
        self.cancelled = False
        self.lost = False
        self.interrupt: Callable[[bool], None] | None = None
        self.log_lines: list[Any] | None = None

    @property
    def lease(self) -> Lease:
        """The job and its token."""
        return Lease(self.job.job_id, self.job.lease_token)
