"""What bulk operations cost over 20,000 dead jobs, counted in processor time, which a busy machine disturbs less than wall time.

The full size (200,000) is `scripts/bench --only operations`.
"""

from __future__ import annotations

import time

import psutil
import pytest

from harness import bulk
from harness.dead import dead, phases
from harness.mill import Mill, scaled
from tidemill.engine.bulk import Bulk

COUNT = 20_000
PER_JOB_US = 200
"""5,000 jobs a second on one core."""
DRY_RUN_SECS = 2 * COUNT / 200_000


@pytest.fixture
def database(new_database: str) -> str:
    """Pages and statistics as nobody has left them."""
    return new_database


def processor_secs(mill: Mill) -> float:
    """Of this process and its backend so far."""
    backend = psutil.Process(mill.conn.info.backend_pid).cpu_times()
    return time.process_time() + backend.user + backend.system


@pytest.mark.timeout(300)
def test_a_retry_of_many_dead_jobs_costs_little_per_job_and_holds_its_locks_briefly(mill: Mill) -> None:
    count = COUNT * scaled(1)
    dead(mill, count)
    mill.conn.execute("vacuum analyze tidemill.jobs")
    mill.conn.execute("vacuum analyze tidemill.dead_letter_queue")
    before = processor_secs(mill)
    plan = bulk.plan(mill, "retry", state=["dead_letter"])
    assert processor_secs(mill) - before <= DRY_RUN_SECS * scaled(1)
    assert plan.estimate == count

    found = bulk.begun(mill, "retry", state=["dead_letter"])
    before, longest, step = processor_secs(mill), 0.0, {"more": 1}
    phase = Bulk(mill.store, clock=time.monotonic)
    while step["more"]:
        began = processor_secs(mill)
        step = dict(phase.step())
        longest = max(longest, processor_secs(mill) - began)
    assert (processor_secs(mill) - before) / count * 1e6 <= PER_JOB_US
    assert longest <= 0.5
    assert (bulk.seen(mill, found).affected, phases(mill)) == (count, {"queued": count})
