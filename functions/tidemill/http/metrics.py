"""A project's figures for Prometheus. Bounded: 200 queues, a handful of states; counts as in the statistics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tidemill.domain import latency
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.stats import MOST, OF_EACH_QUEUE, QUEUES, counted
from tidemill.observe import prometheus
from tidemill.observe.prometheus import Family
from tidemill.store.postgres import PostgresStore

LATENCY_WINDOW: Final = timedelta(minutes=10)
TOTALS: Final = {
    "arrived": ("tidemill_jobs_arrived_total", "Jobs created."),
    "completed": ("tidemill_jobs_completed_total", "Jobs completed."),
    "failed": ("tidemill_attempts_failed_total", "Attempts that failed, crashed or lost their lease."),
    "dead": ("tidemill_jobs_dead_total", "Jobs that died."),
}


@operation(answers={200: None}, text="text/plain")
def metrics(call: Call) -> Answer:
    """The project's figures in Prometheus' text format: text/plain."""

    def read(store: PostgresStore) -> Any:
        since = datetime.now(UTC) - LATENCY_WINDOW
        return (
            store.states(call.project_id, most=MOST),
            store.queue_depths(call.project_id, queues=QUEUES, most=OF_EACH_QUEUE),
            store.totals(call.project_id, limit=QUEUES),
            store.live_workers(call.project_id),
            store.latency_buckets(call.project_id, queue=None, since=since),
            store.counted_until(),
        )

    states, queues, totals, (workers, slots), buckets, until = call.database.run(read)
    jobs = Family("tidemill_jobs", "gauge", f"Jobs by state; counts are exact below {MOST}, beyond that as last sampled.")
    for row in states:
        jobs.add(counted(int(row["count"]), row["better"], MOST)["count"], state=row["state"])
    live = Family("tidemill_live_workers", "gauge", "Workers seen within the length of their leases.")
    live.add(workers)
    room = Family("tidemill_live_worker_slots", "gauge", "Jobs that the live workers can run at once.")
    room.add(slots)
    lag = Family("tidemill_counter_lag_seconds", "gauge", "How far the counters are behind; grows while no scheduler pass runs.")
    lag.add(None if until is None else max(0.0, round((datetime.now(UTC) - until).total_seconds(), 3)))
    families = [jobs, *_queues(queues), *_totals(totals), *_quantiles(buckets), live, room, lag]
    return Answer(prometheus.text(families), content_type=prometheus.CONTENT_TYPE)


def _queues(rows: list[dict[str, Any]]) -> list[Family]:
    depth = Family("tidemill_queue_jobs", "gauge", f"A queue's jobs by state; exact below {OF_EACH_QUEUE}, beyond that as last sampled.")
    oldest = Family("tidemill_queue_oldest_seconds", "gauge", "How long the queue's longest-waiting due job has been due; 0: none waits.")
    paused = Family("tidemill_queue_paused", "gauge", "1 while the queue is paused.")
    for row in rows:
        name = row["name"]
        depth.add(counted(row["queued"], row["sampled_queued"], OF_EACH_QUEUE)["count"], queue=name, state="queued")
        depth.add(counted(row["scheduled"], row["sampled_scheduled"], OF_EACH_QUEUE)["count"], queue=name, state="scheduled")
        depth.add(row["claimed"], queue=name, state="claimed")
        depth.add(row["running"], queue=name, state="running")
        depth.add(counted(row["dead"], row["sampled_dead"], OF_EACH_QUEUE)["count"], queue=name, state="dead_letter")
        oldest.add((row["oldest_queued_age_ms"] or 0) / 1000, queue=name)
        paused.add(int(row["is_paused"]), queue=name)
    return [depth, oldest, paused]


def _totals(rows: list[dict[str, Any]]) -> list[Family]:
    families = []
    for kind, (name, text) in TOTALS.items():
        family = Family(name, "counter", text)
        for row in rows:
            family.add(row[kind], queue=row["name"])
        families.append(family)
    return families


def _quantiles(buckets: list[dict[str, Any]]) -> list[Family]:
    wait = Family("tidemill_queue_wait_seconds", "gauge", "From due to begun, attempts that ended in the last ten minutes, within 9 %.")
    run = Family("tidemill_run_seconds", "gauge", "From begun to ended, attempts that ended in the last ten minutes, within 9 %.")
    for family, kind in ((wait, "waits"), (run, "runs")):
        counts = {row["bucket"]: row[kind] for row in buckets}
        for share in (0.5, 0.95, 0.99):
            found = latency.quantile_ms(counts, share)
            family.add(None if found is None else round(found / 1000, 4), quantile=str(share))
    return [wait, run]
