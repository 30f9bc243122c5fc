"""Exchange: heartbeat, acks and claim in one transaction, the worker's normal beat."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tidemill.domain.jobs import Ack, AckResult, ClaimedJob, ClaimRequest, Heartbeat, HeartbeatAnswer
from tidemill.engine import claim as claims
from tidemill.engine import heartbeat as heartbeats
from tidemill.engine import settle as settles
from tidemill.ports import Rolls, WorkStore


def exchange(
    store: WorkStore,
    project_id: str,
    worker_id: str,
    *,
    beat: Heartbeat | None = None,
    acks: Sequence[Ack] = (),
    claim: ClaimRequest | None = None,
    roll: Rolls,
    now: datetime | None = None,
) -> tuple[HeartbeatAnswer | None, list[AckResult], list[ClaimedJob]]:
    """What the three verbs answer, each part optional. All of it is committed together or not at all.

    Acks come before the claim, so the places they free can be claimed again in the same call; the heartbeat comes last,
    so that a lease acked here is neither extended nor reported lost.
    """
    acked = {(a.job_id, a.lease_token) for a in acks}
    with store.transaction():
        results = settles.settle(store, acks, roll=roll, now=now) if acks else []
        jobs = claims.claim(store, claim, now=now) if claim else []
        answer = None
        if beat is not None:
            open_leases = [lease for lease in beat.leases if (lease.job_id, lease.lease_token) not in acked]
            rest = Heartbeat(open_leases, beat.active_job_count, beat.cpu_percent, beat.memory_mb, beat.status)
            answer = heartbeats.heartbeat(store, project_id, worker_id, rest, now=now)
    return answer, results, jobs
