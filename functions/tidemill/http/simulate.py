"""What a queue's last hour would have looked like under other rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from tidemill.domain.errors import NotFound
from tidemill.engine import simulate as engine
from tidemill.engine.simulate import Proposal, Side, Simulated
from tidemill.http.models.simulate import SimulateAnswer, SimulateIn
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import path_name
from tidemill.store.postgres import PostgresStore

SHOWN: Final = 200


@operation(body=SimulateIn, body_optional=True, answers={200: SimulateAnswer})
def simulate(call: Call, name: str) -> Answer:
    """Serve the last hour's jobs again under proposed weights, limits and rates: expected waits per partition. Changes nothing."""
    name, given = path_name("queue", name), call.body or {}
    proposal = Proposal(
        workers=given.get("workers"),
        max_concurrency=given.get("max_concurrency"),
        lifts_max_concurrency="max_concurrency" in given,
        weights=given.get("weights", {}),
        limits=given.get("limits", {}),
        rates={key: (rate["limit"], rate["window_ms"], rate.get("burst", rate["limit"])) for key, rate in given.get("rates", {}).items()},
    )

    def work(store: PostgresStore) -> Simulated:
        queue_id = store.queue_id(call.project_id, name)
        if queue_id is None:
            raise NotFound("queue", name)
        call.note("queue", name, before={}, after={})  # nothing is changed
        return engine.run(store, call.project_id, name, queue_id, proposal)

    done = call.database.run(work)
    sides = {key: _side(done, side) for key, side in (("now", done.now), ("proposed", done.proposed))}
    return Answer({"window_ms": done.window_ms, "approximate": not done.is_whole, **sides})


def _side(done: Simulated, side: Side) -> dict[str, Any]:
    by_partition: dict[str, list[float | None]] = {}
    for job, wait in zip(done.jobs, side.waits_ms, strict=True):
        by_partition.setdefault(job.partition, []).append(wait)
    most = sorted(by_partition, key=lambda key: (-len(by_partition[key]), key))[:SHOWN]
    return {
        "places": side.places,
        **_waits(side.waits_ms),
        "total_wait_ms": round(sum(wait for wait in side.waits_ms if wait is not None)),
        "partitions": [{"partition_key": key, **_waits(by_partition[key])} for key in most],
    }


def _waits(waits: Sequence[float | None]) -> dict[str, Any]:
    known = sorted(wait for wait in waits if wait is not None)
    at = {name: known[math.ceil(share * len(known)) - 1] if known else None for name, share in (("p50", 0.5), ("p95", 0.95))}
    return {
        "jobs": len(waits),
        "unstarted": len(waits) - len(known),
        **{f"wait_{name}_ms": None if wait is None else round(wait) for name, wait in at.items()},
    }
