"""A queue in numbers, and its partitions."""

from __future__ import annotations

from typing import Any, Final

from tidemill.domain import limits
from tidemill.domain.errors import Fault, Invalid, NotFound
from tidemill.domain.partitions import PartitionLoad, noisy
from tidemill.engine import partitions as engine
from tidemill.http import pages
from tidemill.http.job_view import Row, instant
from tidemill.http.models.stats import Partition, PartitionIn, PartitionsPage, QueueStats
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import path_name
from tidemill.http.queries import Page
from tidemill.http.stats import MOST, counted, per_second
from tidemill.store.partitions import LANES
from tidemill.store.postgres import PostgresStore

NOISY_SHOWN: Final = 100


@operation(answers={200: QueueStats}, etag=True)
def stats(call: Call, name: str) -> Answer:
    """Show a queue at a glance: jobs by state, rates, time to drain, the oldest job, and the same without its noisy partitions."""
    name = path_name("queue", name)

    def read(store: PostgresStore) -> Any:
        found = store.queue_depths(call.project_id, name=name, queues=1, most=MOST)
        if not found:
            raise NotFound("queue", name)
        partitions = store.partitions(found[0]["id"], limit=LANES)
        return found[0], partitions, store.rates(call.project_id, name=name), store.live_workers(call.project_id, queue=name)

    row, partitions, (rates, until), (workers, slots) = call.database.run(read)
    queued = counted(row["queued"], row["sampled_queued"], MOST)
    drained, arrived = (per_second(rates, name, *kinds) for kinds in (("completed", "dead"), ("arrived",)))
    left = queued["count"] + row["claimed"] + row["running"]
    return Answer(
        {
            "name": name,
            "is_paused": row["is_paused"],
            "states": {
                "pending": {"count": int(row["pending"] or 0), "approximate": True},
                "scheduled": counted(row["scheduled"], row["sampled_scheduled"], MOST),
                "queued": queued,
                "claimed": {"count": row["claimed"], "approximate": False},
                "running": {"count": row["running"], "approximate": False},
                "dead_letter": counted(row["dead"], row["sampled_dead"], MOST),
            },
            "arrived_per_second": arrived,
            "drained_per_second": drained,
            "time_to_drain_ms": None if arrived >= drained else round(left / (drained - arrived) * 1000),
            "oldest_queued_age_ms": row["oldest_queued_age_ms"],
            "failures_1h": int(rates.get(name, {}).get("failed_1h") or 0),
            "dead_1h": int(rates.get(name, {}).get("dead_1h") or 0),
            "live_workers": workers,
            "worker_slots": slots,
            "quiet": quiet_group(partitions),
            "memory_estimate_bytes": None if row["memory_mb"] is None else round(row["memory_mb"] * 1e6),
            "sampled_at": instant(row["sampled_at"]),
            "counted_until": instant(until),
        }
    )


def quiet_group(partitions: list[Row]) -> dict[str, Any]:
    """The figures without the noisy partitions."""
    loud = noisy([PartitionLoad(row["partition_key"], row["waiting"], row["weight"]) for row in partitions])
    quiet = [row for row in partitions if row["partition_key"] not in loud]
    ages = [row["oldest_queued_age_ms"] for row in quiet if row["oldest_queued_age_ms"] is not None]
    return {
        "partitions": len(quiet),
        "noisy": sorted(loud)[:NOISY_SHOWN],
        "queued": {"count": sum(row["waiting"] for row in quiet), "approximate": not all(row["is_whole"] for row in quiet)},
        "running": sum(row["running"] for row in quiet),
        "oldest_queued_age_ms": max(ages, default=None),
    }


@operation(query=Page, answers={200: PartitionsPage}, etag=True)
def partitions(call: Call, name: str) -> Answer:
    """List a queue's partitions by key: what waits, what runs, the share of the queue's service, virtual time."""
    name = path_name("queue", name)

    def read(store: PostgresStore, after: str | None, limit: int) -> list[Row]:
        queue_id = store.queue_id(call.project_id, name)
        if queue_id is None:
            raise NotFound("queue", name)
        return store.partitions(queue_id, after=after, limit=limit)

    return pages.plain(
        call,
        f"partitions of {name}",
        lambda after, limit: call.database.run(lambda store: read(store, after, limit)),
        lambda row: row["partition_key"],
        _shown,
    )


@operation(body=PartitionIn, answers={200: Partition})
def weigh(call: Call, name: str, key: str) -> Answer:
    """Set a partition's weight: its share of the queue's service while it has work is this to the sum of those that have."""
    name, weight = path_name("queue", name), call.body["weight"]
    if len(key) > limits.KEY_CHARS or "\0" in key:
        raise Invalid([Fault(("path", "key"), f"has {len(key)} characters, outside 1 to {limits.KEY_CHARS}, or holds NUL")])

    def work(store: PostgresStore) -> Row:
        before = engine.weigh(store, call.project_id, name, key, weight)
        call.note("queue_partition", f"{name}/{key}", before={"weight": before}, after={"weight": weight})
        queue_id = store.queue_id(call.project_id, name)
        assert queue_id is not None
        return next(row for row in store.partitions(queue_id, limit=LANES) if row["partition_key"] == key)

    return Answer(_shown(call.database.run(work)))


def _shown(row: Row) -> Row:
    whole = row["is_whole"]
    shown = {name: row[name] for name in ("partition_key", "running", "weight", "virtual_time", "oldest_queued_age_ms")}
    return {**shown, "waiting": {"count": row["waiting"], "approximate": not whole}, "share": round(row["share"], 6)}
