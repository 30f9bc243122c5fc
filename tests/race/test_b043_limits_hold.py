"""B043: limits hold at every instant, over all workers, through crashes, reaps, cancels and late acks."""

import random
import threading
from typing import Any

import pytest

from harness.mill import Mill, failure
from tidemill.domain.errors import TidemillError
from tidemill.domain.transitions import Event
from tidemill.engine.operate import cancel

WORKERS = 8
MOST_PER_KEY = (
    "select max(n - most) from (select count(*) as n, max(j.concurrency_limit) as most from tidemill.job_leases l"
    " join tidemill.jobs j on j.id = l.job_id where j.concurrency_limit is not null group by j.job_type, j.concurrency_key) x"
)
MOST_PER_QUEUE = (
    "select max(n - q.max_concurrency) from tidemill.queues q join"
    " (select l.queue_id, count(*) as n from tidemill.job_leases l group by 1) x on x.queue_id = q.id where q.max_concurrency is not null"
)


def churn(worker: Mill, chance: random.Random, left: list[int], queues: tuple[str, ...], wrong: list[object]) -> None:
    """Claims and ends jobs in every way until none are left."""
    dry = 0
    while left[0] > 0 and dry < 400:
        jobs = worker.claim(chance.choice((1, 10)), queues=queues)
        dry = 0 if jobs else dry + 1
        for job in jobs:
            match chance.randrange(10):
                case 0:  # a crash: the lease runs out, somebody reaps, and the worker reports all the same
                    worker.lapse(job.job_id)
                    worker.reap()
                    if worker.complete(job).status != "lease_lost":
                        wrong.append(("late ack", job))
                case 1:
                    try:
                        cancel(worker.store, worker.project_id, job.job_id, force=True, roll=worker.roll)
                        left[0] -= 1
                    except TidemillError as error:
                        wrong.append(error)
                case 2:
                    worker.ack(job, Event.FAIL, failure=failure(), retry_delay_ms=0)
                case 3:
                    worker.ack(job, Event.RELEASE)
                case _:
                    worker.complete(job)
                    left[0] -= 1


@pytest.mark.parametrize(
    ("jobs", "queues"),
    [
        ([{"concurrency": {"limit": 1, "key": "K"}, "max_attempts": 1000}] * 60, ("default",)),
        (
            [{"concurrency": {"limit": 3, "key": "K"}, "max_attempts": 1000, "queue": q} for q in ("default", "other") * 40],
            ("default", "other"),
        ),
        (
            [{"concurrency": {"limit": 2, "key": f"k{i % 50}"}, "partition_key": f"p{i % 7}", "max_attempts": 1000} for i in range(200)],
            ("default",),
        ),
        ([{"queue": "small", "max_attempts": 1000} for _ in range(100)], ("small",)),
    ],
    ids=["one key, limit 1", "one key over two queues, limit 3", "50 keys, limit 2", "a queue of 4 places"],
)
def test_b043_no_limit_is_exceeded_at_any_instant(mill: Mill, jobs: list[dict[str, Any]], queues: tuple[str, ...]) -> None:
    mill.queue("other")
    mill.queue("small", max_concurrency=4)
    retry = {"retry_policy": {"strategy": "fixed", "base_delay_ms": 0, "jitter": False}}
    mill.enqueue_all([{**job, **retry} for job in jobs])
    left, wrong, over = [len(jobs)], [], threading.Event()
    observer = mill.another()

    def watch() -> None:
        while not over.is_set():
            for question in (MOST_PER_KEY, MOST_PER_QUEUE):
                row = observer.conn.execute(question.encode()).fetchone()
                if row is not None and row[0] is not None and row[0] > 0:
                    wrong.append((question, row[0]))

    workers = [mill.another() for _ in range(WORKERS)]
    threads = [threading.Thread(target=churn, args=(w, random.Random(i), left, queues, wrong)) for i, w in enumerate(workers)]
    watcher = threading.Thread(target=watch)
    watcher.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    over.set()
    watcher.join(timeout=30)
    assert wrong == []
    counts = dict(mill.conn.execute("select status::text, count(*) from tidemill.job_states group by 1").fetchall())
    assert set(counts) <= {"completed", "cancelled"}, counts
