"""Several schedulers fold while jobs are created, end and are committed late: every row is counted once (docs/adr/0013)."""

import threading
import time
from datetime import timedelta

import pytest

from harness.databases import Databases
from harness.mill import Mill, until
from tidemill.domain import counting
from tidemill.engine.fold import Folding


@pytest.fixture(scope="module")
def databases(quiet_databases: Databases) -> Databases:
    """What is counted waits until all transactions of the server that may still add to it are over."""
    return quiet_databases


SECS = 3.0


def test_every_row_is_counted_once_whoever_folds_and_whenever_it_commits(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "SLACK", timedelta(seconds=1))
    monkeypatch.setattr(counting, "LEAST", timedelta(seconds=1))
    ends_at, done, faults = time.monotonic() + SECS, threading.Event(), list[Exception]()

    def writes(writer: Mill, turns_per_commit: int) -> None:
        while time.monotonic() < ends_at:
            with writer.conn.transaction():
                for _ in range(turns_per_commit):
                    writer.enqueue_all([{}] * 3)
                    for job in writer.claim(2):
                        writer.complete(job)

    def folds(folder: Mill) -> None:
        while not done.is_set():
            folding = Folding(folder.store)
            folding.mark()
            while folding.step().get("more"):
                pass

    def kept(work: object, *arguments: object) -> None:
        try:
            work(*arguments)
        except Exception as error:  # noqa: BLE001 - a thread's fault is the test's
            faults.append(error)

    writers = [threading.Thread(target=kept, args=(writes, mill.another(), turns)) for turns in (1, 2, 200)]
    folders = [threading.Thread(target=kept, args=(folds, mill.another())) for _ in range(3)]
    for thread in writers + folders:
        thread.start()
    for thread in writers:
        thread.join()
    truth = (mill.count("jobs"), mill.count("job_executions"))

    def counted() -> tuple[int, int]:
        row = mill.conn.execute("select coalesce(sum(arrived), 0), coalesce(sum(completed), 0) from tidemill.queue_counters").fetchone()
        assert row is not None
        return int(row[0]), int(row[1])

    try:
        until(lambda: counted() == truth or faults)
    finally:
        done.set()
        for thread in folders:
            thread.join()
    assert faults == []
    assert truth[1] > 0
    assert counted() == truth
    hours = mill.conn.execute("select sum(arrived), sum(completed) from tidemill.queue_hours").fetchone()
    totals = mill.conn.execute("select sum(arrived), sum(completed) from tidemill.queue_totals").fetchone()
    assert hours == totals == truth
