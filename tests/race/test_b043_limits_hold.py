"""B043: limits hold at every instant, over all workers, through crashes, reaps, cancels and late acks."""

from typing import Any

import pytest

from harness.churn import RETRY, Churning
from harness.mill import Mill, until
from harness.processes import actors

MOST_PER_KEY = (
    "select max(n - most) from (select count(*) as n, max(j.concurrency_limit) as most from tidemill.job_leases l"
    " join tidemill.jobs j on j.id = l.job_id where j.concurrency_limit is not null group by j.job_type, j.concurrency_key) x"
)
MOST_PER_QUEUE = (
    "select max(n - q.max_concurrency) from tidemill.queues q join"
    " (select l.queue_id, count(*) as n from tidemill.job_leases l group by 1) x on x.queue_id = q.id where q.max_concurrency is not null"
)


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
    assert Churning(mill, queues).over(MOST_PER_KEY, MOST_PER_QUEUE) == []
    counts = dict(mill.conn.execute("select status::text, count(*) from tidemill.job_states group by 1").fetchall())
    assert set(counts) <= {"completed", "cancelled"}, counts


def test_b043_limits_hold_over_processes_of_which_one_is_killed(mill: Mill) -> None:
    """Real processes; one dies with leases in its hands. Watched from a connection that takes part in nothing."""
    mill.conn.execute("update tidemill.queues set max_concurrency = 7")
    mill.enqueue_all([{"concurrency": {"limit": 2, "key": f"k{i % 5}"}, "partition_key": f"p{i % 3}", **RETRY} for i in range(150)])
    observer, worst = mill.another(), [0, 0]
    left = "select (select count(*) from tidemill.job_queue_entries) + (select count(*) from tidemill.job_leases)"

    def is_over() -> bool:
        for at, question in enumerate((MOST_PER_KEY, MOST_PER_QUEUE)):
            row = observer.conn.execute(question.encode()).fetchone()
            worst[at] = max(worst[at], (row[0] or 0) if row else 0)
        mill.reap()
        return mill.conn.execute(left.encode()).fetchone() == (0,)

    with actors(mill, "churn", 4, 3) as processes:
        ids = [process.line() for process in processes]
        for process in processes:
            process.go()
        victim, *others = processes
        assert victim.line()
        victim.kill()
        mill.conn.execute(
            "update tidemill.job_leases set claimed_at = now() - interval '1 day', lease_expires_at = now() - interval '1 second'"
            " where worker_id = %s",
            [ids[0]],
        )
        until(is_over)
        for other in others:
            other.rest()
    assert worst == [0, 0]
    assert dict(mill.conn.execute("select status::text, count(*) from tidemill.job_states group by 1").fetchall()) == {"completed": 150}
