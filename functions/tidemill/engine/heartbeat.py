"""Heartbeat: a worker keeps its leases and learns what is asked of it."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from tidemill.domain.jobs import Command, Heartbeat, HeartbeatAnswer
from tidemill.ports import HeartbeatStore


def heartbeat(store: HeartbeatStore, project_id: str, worker_id: str, beat: Heartbeat, *, now: datetime | None = None) -> HeartbeatAnswer:
    """Extends all leases by their own length from now and tells the command, the jobs to stop and the leases that are lost.

    A lease belongs to its job, never to the worker's row: an unknown worker's leases are extended all the same.
    """
    with store.transaction():
        command = store.beat(project_id, worker_id, beat, now=now)
        kept = store.extend(beat.leases, now=now) if beat.leases else []
    ours = {k.job_id for k in kept}
    return HeartbeatAnswer(
        command=cast("Command | None", command),
        cancel=[k.job_id for k in kept if k.cancel_requested],
        lost=[lease.job_id for lease in beat.leases if lease.job_id not in ours],
        leases=kept,
    )
