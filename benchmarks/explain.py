"""Why a job does not run, asked of a full database: time and processor time of each answer, by what stands in the job's way.

Beside the finished, queued and dead jobs of a busy day stand some 50,000 with gates, made by the engine's own verbs, so that each kind of
reason is there in numbers: keys, a type, rate classes, a full and a paused queue, partitions, parents, quarantine, leases.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.full import full_base
from benchmarks.measure import Size
from benchmarks.results import Row
from tidemill.domain.admission import RateClass, StandingLimit
from tidemill.domain.jobs import ClaimRequest, Registration
from tidemill.engine import limits, worker
from tidemill.engine.claim import claim
from tidemill.engine.enqueue import enqueue
from tidemill.engine.quarantine import sweep
from tidemill.engine.reap import reap
from tidemill.http import routes
from tidemill.local import postgres
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore

AIM_MS: Final = 20
TIMES: Final = 300
WORKERS: Final = 50
QUEUES: Final[dict[str, dict[str, Any]]] = {
    "keys": {}, "type": {}, "rate": {}, "narrow": {"max_concurrency": 1_000}, "paused": {"is_paused": True}, "fair": {}, "sticky": {},
    "crashing": {"quarantine_after": 1}, "waiting": {}, "busy": {}, "nobody": {},
}  # fmt: skip
JOBS: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    # queue: how many, and what each is; {n} counts
    "keys": (10_000, {"concurrency": {"limit": 2, "key": "user-{m}"}}),
    "type": (5_000, {"job_type": "limited"}),
    "rate": (5_000, {"rate_class": "class-{c}", "weight": 2}),
    "narrow": (5_000, {}),
    "paused": (5_000, {}),
    "fair": (10_000, {"partition_key": "tenant-{m}"}),
    "sticky": (1_000, {"sticky_worker": "worker-1"}),
    "crashing": (2_000, {"job_type": "crashes"}),
    "waiting": (2_000, {"delay_ms": 3_600_000}),
    "busy": (5_000, {}),
    "nobody": (1_000, {}),
}
OF_QUEUE: Final = "select e.job_id::text from tidemill.job_queue_entries e join tidemill.queues q on q.id = e.queue_id where q.name = '{}'"
KINDS: Final[dict[str, str]] = {
    "queued behind 10,000 others": OF_QUEUE.format("queue-3"),
    "key at its limit": OF_QUEUE.format("keys"),
    "type at its standing limit of 1,000": OF_QUEUE.format("type"),
    "rate class empty": OF_QUEUE.format("rate"),
    "queue at its limit of 1,000": OF_QUEUE.format("narrow"),
    "queue paused": OF_QUEUE.format("paused"),
    "one of 1,000 partitions": OF_QUEUE.format("fair"),
    "sticky to a worker that does not listen": OF_QUEUE.format("sticky"),
    "no live worker": OF_QUEUE.format("nobody"),
    "scheduled": OF_QUEUE.format("waiting"),
    "quarantined": "select id::text from tidemill.jobs where phase = 'quarantined'",
    "waits for 500 parents": "select id::text from tidemill.jobs where phase = 'waiting' and pending_parents > 0",
    "held": "select id::text from tidemill.jobs where phase = 'waiting' and is_held",
    "running": "select job_id::text from tidemill.job_leases",
    "dead": "select job_id::text from tidemill.dead_letter_queue",
    "finished": "select job_id::text from tidemill.job_executions tablesample system (1) where status = 'completed'",
}


def explain_rows(running: postgres.Server, size: Size, say: Callable[[str], None]) -> list[Row]:
    """Handler time of an answer by kind of job, the dearest first."""
    base = full_base(running, size.others, say)
    from api.gateway import Gateway, add_key
    from harness.million import PROJECT

    with connect(base.dsn) as conn:
        _add_gated(PostgresStore(conn), conn, PROJECT)
        say(f"{sum(count for count, _ in JOBS.values()):,} jobs with something in their way beside them")
        times = TIMES if size.jobs >= 20_000 else TIMES // 3
        sampled = {kind: _sample(conn, ids, times) for kind, ids in KINDS.items()}
    gateway = Gateway(base.dsn, project=(PROJECT, add_key(base.dsn, PROJECT, routes.Scope.READ)))
    rows = [_asked(gateway, kind, ids) for kind, ids in sampled.items()]
    gateway.close()
    rows.sort(key=lambda row: -_p99(row.bare))
    over = [row.what for row in rows if _p99(row.bare) > AIM_MS]
    say(f"{sum(map(len, sampled.values())):,} jobs asked about, {len(over)} kinds over {AIM_MS} ms of processor time at p99")
    return [Row("explain", row.what, "ms", row.ours, note=row.note) for row in rows]


def _sample(conn: Any, ids: str, times: int) -> list[str]:
    return [row[0] for row in conn.execute(f"{ids} order by random() limit {times}".encode())]


def _asked(gateway: Any, kind: str, ids: list[str]) -> Row:
    """`ours`: handler time, `bare`: processor time of handler and database, one of each per job."""
    row, reasons = Row("explain", kind, "ms"), set()
    path = "/v1/jobs/{}/explain"
    gateway.get(path.format(ids[0]))
    conn = gateway.app(routes.function_of("GET", path.format("{id}")))._dispatcher.database._conn  # noqa: SLF001 - whose processor time it is
    server = Path(f"/proc/{conn.info.backend_pid}/schedstat")

    def used_ms() -> float:
        return time.thread_time() * 1_000 + int(server.read_text().split()[0]) / 1e6

    for job_id in ids:
        used, began = used_ms(), time.perf_counter()
        reply = gateway.get(path.format(job_id))
        row.ours.append((time.perf_counter() - began) * 1_000)
        row.bare.append(used_ms() - used)
        assert reply.status == 200, reply.text
        reasons |= {reason["reason"] for reason in reply.json["blocked_by"]}
    processor = f"processor {statistics.median(row.bare):.1f}, p99 {_p99(row.bare):.1f} ms"
    row.note = f"p99 {_p99(row.ours):.1f} ms; {processor}: {', '.join(sorted(reasons)) or 'nothing'}"
    return row


def _p99(took: list[float]) -> float:
    return statistics.quantiles(took, n=100, method="inclusive")[98]


def _add_gated(store: PostgresStore, conn: Any, project: str) -> None:
    workers = [f"01900000-0000-7000-8000-{number:012x}" for number in range(WORKERS)]
    for name, columns in QUEUES.items():
        columns = {"max_concurrency": None, "is_paused": False, "quarantine_after": 3, **columns}
        conn.execute(
            "insert into tidemill.queues (id, project_id, name, max_concurrency, is_paused, quarantine_after)"
            " values (gen_random_uuid(), %(p)s, %(n)s, %(max_concurrency)s, %(is_paused)s, %(quarantine_after)s)",
            {"p": project, "n": name, **columns},
        )
    for number, worker_id in enumerate(workers):
        queues = [f"queue-{i}" for i in range(10)] + [name for name in QUEUES if name not in ("nobody", "sticky" if number == 1 else "")]
        worker.register(store, project, worker_id, Registration(name=f"worker-{number}", queues=queues, max_concurrency=16))
    conn.execute("update tidemill.workers set last_seen_at = now() + interval '1 day'")  # none is lost before the last question
    limits.put_limit(store, project, StandingLimit("l", 1_000, job_type="limited"))
    for number in range(10):
        limits.put_rate_class(store, project, RateClass(f"class-{number}", 10, 86_400_000, 10))
    for queue, (count, about) in JOBS.items():
        for begin in range(0, count, 1_000):
            enqueue(store, project, [_job(queue, about, begin + n) for n in range(min(1_000, count - begin))])
    enqueue(store, project, [{"job_type": "held", "queue": "waiting", "hold": True} for _ in range(500)])
    parents = [{"job_type": "parent", "queue": "waiting", "delay_ms": 3_600_000, "ref": f"r{n}"} for n in range(500)]
    made = [one.job_id for one in enqueue(store, project, parents)]
    for _ in range(20):
        enqueue(store, project, [{"job_type": "child", "queue": "waiting", "depends_on": made} for _ in range(15)])
    for queue in ("keys", "type", "rate", "narrow", "busy", "crashing"):
        for _ in range(6 if queue != "crashing" else 1):
            claim(store, ClaimRequest(project, workers[0], [queue], 500 if queue != "crashing" else 20, None, 43_200_000, True))
    conn.execute(
        "update tidemill.job_leases set claimed_at = now() - interval '1 day', lease_expires_at = now() - interval '1 second'"
        " where queue_id = (select id from tidemill.queues where name = 'crashing')"
    )
    reap(store, limit=100, roll=lambda: 0.5)
    while sweep(store)["more"]:
        pass
    conn.execute("vacuum analyze")


def _job(queue: str, about: dict[str, Any], number: int) -> dict[str, Any]:
    text = {"n": number, "m": number % 1_000, "c": number % 10}

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: filled(part) for name, part in value.items()}
        return value.format(**text) if isinstance(value, str) else value

    return {"job_type": "gated", "queue": queue, "payload": {"n": number} if queue != "crashing" else {"n": number % 20}, **filled(about)}
