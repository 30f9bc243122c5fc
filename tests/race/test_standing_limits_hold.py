"""Standing limits, rate classes and on_saturated hold at every instant, over all workers, also while somebody sets and moves them."""

from typing import Any

import pytest

from harness.churn import RETRY, Churning
from harness.mill import Mill, until
from tidemill.domain.admission import RateClass, StandingLimit
from tidemill.engine import limits

MOST_PER_TYPE = """
select max(x.n - c.max_concurrent)
from tidemill.concurrency_limits c
join (select j.project_id, j.job_type, count(*) as n from tidemill.job_leases l join tidemill.jobs j on j.id = l.job_id group by 1, 2) x
    on x.project_id = c.project_id and x.job_type = c.job_type
"""
MOST_PER_QUEUE = """
select max(x.n - c.max_concurrent)
from tidemill.concurrency_limits c
join (select l.queue_id, count(*) as n from tidemill.job_leases l group by 1) x on x.queue_id = c.queue_id
"""
# Every attempt has paid its job's weight. What has been paid by now was in the full bucket at first, or was earned since.
OVERSPENT = """
select x.spent - (r.burst + r."limit" * extract(epoch from clock_timestamp() - b.at) * 1000 / r.window_ms)
from tidemill.rate_classes r
cross join begun b
cross join (
    select coalesce(sum(j.weight), 0) as spent
    from (select job_id from tidemill.job_leases union all select job_id from tidemill.job_executions) a
    join tidemill.jobs j on j.id = a.job_id
    where j.rate_class is not null) x
"""


def set_limit(mill: Mill, most: int, **target: Any) -> None:
    limits.put_limit(mill.store, mill.project_id, StandingLimit("l", most, **target))
    limits.relane_now(mill.store, mill.project_id)


def ended_well(mill: Mill) -> None:
    counts = dict(mill.conn.execute("select status::text, count(*) from tidemill.job_states group by 1").fetchall())
    assert set(counts) <= {"completed", "cancelled"}, counts
    assert mill.misplaced() == []


@pytest.mark.parametrize("on_saturated", ["queue", "cancel_running"])
@pytest.mark.parametrize("target", [{"job_type": "heavy"}, {"queue": "default"}], ids=["type", "queue"])
def test_standing_limit_is_exceeded_at_no_instant(mill: Mill, target: dict[str, str], on_saturated: str) -> None:
    mill.queue("other")
    jobs = [{"job_type": "heavy", "queue": ("default", "other")[i % 2], **RETRY} for i in range(50)]
    for i, job in enumerate(jobs):
        job |= {"partition_key": f"p{i % 7}"} if i % 3 else {}
    mill.enqueue_all(jobs[:25])
    set_limit(mill, 3, on_saturated=on_saturated, **target)
    mill.enqueue_all(jobs[25:])
    assert Churning(mill, ("default", "other")).over(MOST_PER_TYPE, MOST_PER_QUEUE) == []
    ended_well(mill)


@pytest.mark.parametrize("target", [{"job_type": "heavy"}, {"queue": "default"}], ids=["type", "queue"])
def test_limit_that_comes_while_jobs_run_holds_from_that_instant_on(mill: Mill, target: dict[str, str]) -> None:
    """Over it at most because of what ran when it came: what an instant later runs is under it, or less than before."""
    mill.enqueue_all([{"job_type": "heavy", **RETRY}] * 120)
    crowd = Churning(mill, ("default",))
    running = "select count(*) from tidemill.job_leases"

    def limit(helper: Mill) -> None:
        for most in (3, 2):
            until(lambda: helper.conn.execute(running.encode()).fetchone() != (0,))
            set_limit(helper, most, **target)
            before = 1_000
            for _ in range(50):
                now = helper.conn.execute(running.encode()).fetchone()[0]
                if now > max(most, before):
                    crowd.wrong.append((most, before, now))
                before = now

    assert crowd.over(meanwhile=limit) == []
    ended_well(mill)


def test_rate_class_is_overspent_at_no_instant(mill: Mill) -> None:
    mill.conn.execute("create table begun as select clock_timestamp() as at")
    limits.put_rate_class(mill.store, mill.project_id, RateClass("api", 60, 1_000, 15))
    mill.queue("other")
    jobs = [
        {"rate_class": "api", "weight": 1 + i % 3, "queue": ("default", "other")[i % 2], "partition_key": f"p{i % 5}", **RETRY}
        for i in range(60)
    ]
    mill.enqueue_all([*jobs, *({"job_type": "free", **RETRY} for _ in range(30))])

    def change(helper: Mill) -> None:
        for paused in (True, False):
            limits.put_rate_class(helper.store, helper.project_id, RateClass("api", 60, 1_000, 15, paused))

    assert Churning(mill, ("default", "other")).over(OVERSPENT, meanwhile=change) == []
    counts = dict(mill.conn.execute("select status::text, count(*) from tidemill.job_states group by 1").fetchall())
    assert counts.get("completed", 0) > 20, counts
