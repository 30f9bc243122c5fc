"""Workers come, beat and go."""

from __future__ import annotations

import random

from tidemill.domain.jobs import HeartbeatAnswer, Registration
from tidemill.engine import heartbeat as heartbeats
from tidemill.engine import worker as engine
from tidemill.http.ids import new_id
from tidemill.http.leases import heartbeat_json, heartbeat_of
from tidemill.http.models.workers import HeartbeatIn, HeartbeatOut, Registered, RegisterIn
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.own_leases import own_beat
from tidemill.http.parameters import path_id
from tidemill.store.postgres import PostgresStore


@operation(body=RegisterIn, answers={201: Registered}, cleans_text=True)
def register(call: Call) -> Answer:
    """Add a worker under a new id. A second one of the same name touches nothing of the first."""
    given = call.body
    registration = Registration(
        name=given["name"],
        queues=given["queues"],
        hostname=given.get("hostname", ""),
        pid=given.get("pid"),
        version=given.get("version", ""),
        job_types=given.get("job_types"),
        max_concurrency=given.get("max_concurrency", 1),
        lease_ms=given.get("lease_ms", 60_000),
    )
    worker_id = str(new_id())
    made = call.database.run(lambda store: engine.register(store, call.project_id, worker_id, registration))
    answer = {"worker_id": made.worker_id, "heartbeat_interval_ms": made.heartbeat_interval_ms, "lease_ms": made.lease_ms}
    return Answer(answer, 201)


@operation(body=HeartbeatIn, answers={200: HeartbeatOut}, cleans_text=True)
def heartbeat(call: Call, id: str) -> Answer:
    """Extend all leases and learn what is asked. Leases belong to jobs: those of an unknown worker are extended all the same."""
    worker_id, beat = path_id("worker", id), heartbeat_of(call.body)

    def work(store: PostgresStore) -> HeartbeatAnswer:
        return heartbeats.heartbeat(store, call.project_id, worker_id, own_beat(store, call.project_id, beat))

    answer = call.database.run(work)
    return Answer(heartbeat_json(answer))


@operation(answers={200: dict[str, int]})
def deregister(call: Call, id: str) -> Answer:
    """Remove a worker and release what it holds without costing an attempt."""
    worker_id = path_id("worker", id)

    def work(store: PostgresStore) -> int:
        released = engine.deregister(store, call.project_id, worker_id, roll=random.random)
        call.note("worker", worker_id, after={"released": released})
        return released

    return Answer({"released": call.database.run(work)})
