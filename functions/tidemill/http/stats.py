"""A project in numbers: overview, history, latency, job types. Every count is bounded, and nothing reads a table of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tidemill.domain import latency as buckets_of
from tidemill.domain import webhooks
from tidemill.domain.errors import Fault, Invalid, NotFound
from tidemill.http import pages
from tidemill.http.fields import instant_of
from tidemill.http.job_view import Row, instant
from tidemill.http.models.stats import History, HistoryQuery, JobTypesPage, JobTypesQuery, Latency, LatencyQuery, Overview
from tidemill.http.operation import Answer, Call, operation
from tidemill.store.postgres import PostgresStore

MOST: Final = 10_000
OF_EACH_QUEUE: Final = 2_000
QUEUES: Final = 200
BUCKETS: Final = 1_500
MINUTES_KEPT: Final = timedelta(hours=48)
HOUR_MS: Final = 3_600_000


def counted(count: int, better: int | None, most: int) -> dict[str, Any]:
    """A count that stopped at `most`, or what is known better."""
    if count < most:
        return {"count": count, "approximate": False}
    return {"count": max(count, better or 0), "approximate": True}


def per_second(rates: Mapping[str, Row], name: str, *kinds: str) -> float:
    """What happened per second in a queue, over the last minutes that are counted."""
    found = rates.get(name)
    return 0.0 if found is None else round(float(sum(found[kind] or 0 for kind in kinds)) / found["secs"], 3)


@operation(answers={200: Overview}, etag=True)
def overview(call: Call) -> Answer:
    """Show the project at a glance: jobs by state, workers, the oldest queued job, failures, throughput, backlog per queue."""

    def read(store: PostgresStore) -> Any:
        return (
            store.states(call.project_id, most=MOST),
            store.queue_depths(call.project_id, queues=QUEUES, most=OF_EACH_QUEUE),
            store.rates(call.project_id),
            store.live_workers(call.project_id),
            store.webhook_standing(call.project_id),
        )

    states, queues, (rates, until), (workers, slots), webhook = call.database.run(read)
    shown = [_backlog(row, rates) for row in queues]
    ages = [row["oldest_queued_age_ms"] for row in queues if row["oldest_queued_age_ms"] is not None]
    total = {kind: sum(int(row[kind] or 0) for row in rates.values()) for kind in ("arrived", "completed", "failed_1h", "dead_1h")}
    secs = next((row["secs"] for row in rates.values()), 1.0)
    return Answer(
        {
            "states": {row["state"]: counted(int(row["count"]), row["better"], MOST) for row in states},
            "live_workers": workers,
            "worker_slots": slots,
            "oldest_queued_age_ms": max(ages, default=None),
            "failures_1h": total["failed_1h"],
            "dead_1h": total["dead_1h"],
            "throughput": {f"{kind}_per_second": round(total[kind] / secs, 3) for kind in ("arrived", "completed")},
            "paused_queues": [row["name"] for row in queues if row["is_paused"]],
            "queues": shown,
            "webhook": None if webhook is None else _standing(webhook),
            "counted_until": instant(until),
        }
    )


def _standing(row: Row) -> dict[str, Any]:
    since = row["failing_since"]
    return {"status": webhooks.status(is_paused=row["is_paused"], is_failing=since is not None), "failing_since": instant(since)}


def _backlog(row: Row, rates: Mapping[str, Row]) -> dict[str, Any]:
    name = row["name"]
    return {
        "name": name,
        "is_paused": row["is_paused"],
        "queued": counted(row["queued"], row["sampled_queued"], OF_EACH_QUEUE),
        "scheduled": counted(row["scheduled"], row["sampled_scheduled"], OF_EACH_QUEUE),
        "claimed": row["claimed"],
        "running": row["running"],
        "dead_letter": counted(row["dead"], row["sampled_dead"], OF_EACH_QUEUE),
        "oldest_queued_age_ms": row["oldest_queued_age_ms"],
        "arrived_per_second": per_second(rates, name, "arrived"),
        "completed_per_second": per_second(rates, name, "completed"),
    }


@operation(query=HistoryQuery, answers={200: History}, etag=True)
def history(call: Call) -> Answer:
    """Show what arrived, completed, failed and died, bucket by bucket up to now, gaps as zeros."""
    bucket_ms = call.query.get("bucket_ms", 60_000)
    queue = call.query.get("queue")
    if bucket_ms % 60_000:
        raise Invalid([Fault(("query", "bucket_ms"), f"{bucket_ms} is no multiple of 60000, a minute")])
    now = datetime.now(UTC)
    bucket = timedelta(milliseconds=bucket_ms)
    given = call.query.get("since")
    since = _floor(instant_of(given) if given else now - 59 * bucket, bucket)
    count = (now - since) // bucket + 1
    if count > BUCKETS:
        raise Invalid([Fault(("query", "since"), f"makes {count:,} buckets; the limit is {BUCKETS:,}: take larger buckets")])
    hourly = bucket_ms % HOUR_MS == 0
    if not hourly and since < now - MINUTES_KEPT - bucket:
        raise Invalid([Fault(("query", "since"), "is over 48 hours ago: take buckets of whole hours, minutes are kept that long")])

    def read(store: PostgresStore) -> Any:
        if queue is not None and not store.queues(call.project_id, name=queue):
            raise NotFound("queue", queue)
        until = since + count * bucket
        rows = store.history(call.project_id, queue=queue, since=since, until=until, bucket=bucket, hourly=hourly)
        return *rows, store.rates(call.project_id, name=queue)[1]

    rows, whole, until = call.database.run(read)
    kinds = ("arrived", "completed", "failed", "dead")
    found = {row["at"]: {kind: row[kind] for kind in kinds} for row in rows}
    none = dict.fromkeys(kinds, 0)
    shown = [{"at": instant(at), **found.get(at, none)} for at in (since + place * bucket for place in range(max(0, count)))]
    return Answer({"bucket_ms": bucket_ms, "buckets": shown, "counted_until": instant(until), "approximate": not whole})


def _floor(at: datetime, bucket: timedelta) -> datetime:
    beginning = datetime(1970, 1, 1, tzinfo=UTC)
    return beginning + (at - beginning) // bucket * bucket


@operation(query=LatencyQuery, answers={200: Latency}, etag=True)
def latency(call: Call) -> Answer:
    """Show how long jobs waited for a worker once they were due, and how long attempts ran."""
    since = _floor(datetime.now(UTC) - timedelta(milliseconds=call.query.get("window_ms", HOUR_MS)), timedelta(minutes=5))
    queue = call.query.get("queue")

    def read(store: PostgresStore) -> list[Row]:
        if queue is not None and not store.queues(call.project_id, name=queue):
            raise NotFound("queue", queue)
        return store.latency_buckets(call.project_id, queue=queue, since=since)

    rows = call.database.run(read)
    waits, runs = ({row["bucket"]: row[kind] for row in rows} for kind in ("waits", "runs"))
    return Answer({"since": instant(since), "queue_wait": _quantiles(waits), "run_time": _quantiles(runs)})


def _quantiles(counts: Mapping[int, int]) -> dict[str, Any]:
    shown: dict[str, Any] = {"count": sum(counts.values())}
    for name, share in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99)):
        found = buckets_of.quantile_ms(counts, share)
        shown[name] = None if found is None else round(found)
    return shown


@operation(query=JobTypesQuery, answers={200: JobTypesPage}, etag=True)
def job_types(call: Call) -> Answer:
    """List the job types that the project has used, by name. A new one is in it within a minute."""
    return pages.plain(
        call,
        "job-types",
        lambda after, limit: call.database.run(lambda store: store.job_types(call.project_id, after=after, limit=limit)),
        lambda row: row["name"],
        lambda row: row | {name: instant(row[name]) for name in ("first_seen_at", "last_seen_at")},
    )
