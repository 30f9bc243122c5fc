"""Jobs whose enqueue began before an ack looked for what is next in their lane, and was committed after it (docs/adr/0023)."""

import pytest

from harness.mill import T0, Mill, S, ack_of
from tidemill.domain.jobs import ClaimedJob
from tidemill.domain.transitions import Event

KEYS = [{"concurrency": {"limit": 1, "key": f"k{i}"}} for i in range(150)]


def done(mill: Mill, jobs: list[ClaimedJob]) -> int:
    mill.settle([ack_of(job, Event.COMPLETE) for job in jobs], now=T0 + 3 * S)
    return len(jobs)


@pytest.mark.parametrize("limit", [150, 40, 15])
def test_a_job_that_is_due_before_the_one_that_an_ack_told_of_is_not_lost(mill: Mill, limit: int) -> None:
    """Claims of all lanes follow the hints; of 40, tell them again; of 15, write the others as ready."""
    mill.enqueue_all(KEYS * 2, now=T0)
    assert done(mill, mill.claim(150, now=T0)) == 150
    running = mill.claim(150, now=T0)  # the last of their lanes, which stay
    other = mill.another()
    with other.conn.transaction():
        other.enqueue_all(KEYS, now=T0 + S)
        mill.enqueue_all(KEYS, now=T0 + 2 * S)
        assert done(mill, running) == 150
    left = 300
    while jobs := mill.claim(limit, now=T0 + 4 * S):
        left -= done(mill, jobs)
    assert not mill.misplaced()
    assert left == 0
