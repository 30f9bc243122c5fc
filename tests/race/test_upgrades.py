"""Claims that are under way while the database is brought up to date end as they began (migrations 0027 to 0029)."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from harness.databases import Databases
from harness.mill import Mill, ack_of, opened, until, waiting_on_locks
from tidemill.domain.jobs import Lease
from tidemill.domain.transitions import Event
from tidemill.store.migrate import default_folder, migrate

KEYS = [{"concurrency": {"limit": 1, "key": f"k{i}"}} for i in range(20)]


@pytest.fixture
def before(databases: Databases, tmp_path: Path) -> Iterator[Mill]:
    """A mill on a database of the release before hints."""
    for file in default_folder().glob("00*.sql"):
        if file.name < "0027":
            shutil.copy(file, tmp_path)
    dsn = databases.empty()
    migrate(dsn, folder=tmp_path)
    with opened(dsn) as mill:
        yield mill
    databases.drop(dsn)


def test_a_claim_that_is_under_way_while_the_database_is_migrated_succeeds(before: Mill) -> None:
    before.enqueue_all(KEYS * 3)
    claimer, holder = before.another(), before.another()
    taken: list[Lease] = []

    def work() -> None:
        rows = claimer.conn.execute(
            "select c.job_id::text, c.lease_token::text from tidemill.queues q"
            " cross join lateral tidemill.claim_gated(q.id, gen_random_uuid(), 500, null, 30000, true, null) c"
        )
        taken.extend(Lease(*row) for row in rows)

    worker = Thread(target=work)
    with holder.conn.transaction():
        holder.conn.execute(next(default_folder().glob("0027*.sql")).read_bytes())
        worker.start()  # begins as of before, and waits for the news while it reads them
        until(lambda: waiting_on_locks(before.conn))
    worker.join()
    assert len(taken) == 20
    for name in ("0028", "0029"):
        before.conn.execute(next(default_folder().glob(f"{name}*.sql")).read_bytes())
    before.settle([ack_of(lease, Event.COMPLETE) for lease in taken])
    for _ in range(2):
        jobs = before.claim(500)
        assert len(jobs) == 20
        before.settle([ack_of(job, Event.COMPLETE) for job in jobs])
    assert not before.misplaced()
