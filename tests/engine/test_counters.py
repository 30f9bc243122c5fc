"""Counters per minute: every job and every end counted once, whoever folds and whenever it was committed (docs/adr/0013)."""

from datetime import datetime

import psycopg
import pytest

from harness.databases import Databases
from harness.mill import DAY, T0, M, Mill, S
from tidemill.domain.transitions import Event
from tidemill.engine.fold import Folding
from tidemill.engine.operate import retry


@pytest.fixture(scope="module")
def databases(quiet_databases: Databases) -> Databases:
    """What is counted waits until all transactions of the server that may still add to it are over."""
    return quiet_databases


def fold(mill: Mill, at: datetime = T0 + 10 * S) -> dict[str, int]:
    """A pass at that time; what it counted."""
    folding = Folding(mill.store, now=at)
    folding.mark()
    total: dict[str, int] = {}
    while True:
        counts = dict(folding.step())
        for name, value in counts.items():
            total[name] = total.get(name, 0) + value
        if not counts.get("more"):
            return total


def totals(mill: Mill, table: str = "queue_counters") -> dict[str, int]:
    statement = f"select sum(arrived), sum(completed), sum(failed), sum(dead) from tidemill.{table}"
    row = mill.conn.execute(statement.encode()).fetchone()
    assert row is not None
    return {name: int(value or 0) for name, value in zip(("arrived", "completed", "failed", "dead"), row, strict=True)}


def work(mill: Mill, at: datetime = T0) -> None:
    """Ten jobs: four completed, one failed and to be retried, one dead, four left."""
    mill.enqueue_all([{}] * 10, now=at)
    jobs = mill.claim(6, now=at)
    for job in jobs[:4]:
        mill.complete(job, now=at)
    mill.fail(jobs[4], now=at)
    mill.fail(jobs[5], retryable=False, now=at)


WORKED = {"arrived": 10, "completed": 4, "failed": 2, "dead": 1}


def test_what_happened_is_counted_by_minute_and_by_hour(mill: Mill) -> None:
    work(mill)
    fold(mill)
    assert totals(mill) == WORKED
    assert totals(mill, "queue_hours") == WORKED


def test_second_pass_counts_nothing_again(mill: Mill) -> None:
    work(mill)
    for at in (10 * S, 20 * S, 5 * M):
        fold(mill, T0 + at)
    assert totals(mill) == WORKED


def test_what_happens_between_passes_is_counted_by_the_next_one(mill: Mill) -> None:
    for seconds in (0, 7, 20, 61, 200):
        work(mill, T0 + seconds * S)
        fold(mill, T0 + (seconds + 8) * S)
    fold(mill, T0 + 300 * S)
    assert totals(mill) == {name: 5 * value for name, value in WORKED.items()}
    rows = mill.conn.execute("select minute, arrived from tidemill.queue_counters order by minute").fetchall()
    assert rows == [(T0, 30), (T0 + M, 10), (T0 + 3 * M, 10)]


def test_attempts_given_back_are_no_failures(mill: Mill) -> None:
    mill.enqueue_all([{}] * 3, now=T0)
    for job, event in zip(mill.claim(3, now=T0), (Event.RELEASE, Event.SNOOZE, Event.CRASH), strict=True):
        mill.ack(job, event, now=T0, **({"delay_ms": 1_000} if event is Event.SNOOZE else {}))
    fold(mill)
    assert totals(mill)["failed"] == 1


def test_death_that_was_retried_by_hand_stays_counted(mill: Mill) -> None:
    job_id = mill.new(T0)
    assert mill.fail(mill.claim_job(job_id, now=T0), retryable=False, now=T0).state == "dead_letter"
    retry(mill.store, mill.project_id, job_id, now=T0)
    fold(mill)
    assert totals(mill)["dead"] == 1


def test_job_committed_late_is_counted_when_it_is_committed(mill: Mill) -> None:
    """An application's own transaction that stays open over several passes holds nothing up for long, and is not lost."""
    other = mill.another()
    mill.new(T0)
    fold(mill)
    with other.conn.transaction():
        other.new(T0 + 20 * S)
        mill.new(T0 + 21 * S)
        assert fold(mill, T0 + M)["arrived"] == 0, "an open transaction may still add to that minute: it is patient"
        assert fold(mill, T0 + 4 * M)["arrived"] == 1, "but not for ever"
        assert totals(mill)["arrived"] == 2
    assert fold(mill, T0 + 5 * M)["late"] == 1
    assert totals(mill)["arrived"] == 3
    assert totals(mill, "queue_hours")["arrived"] == 3
    assert fold(mill, T0 + 6 * M)["late"] == 0


def test_completion_committed_late_is_counted(mill: Mill) -> None:
    other = mill.another()
    mill.enqueue_all([{}] * 2, now=T0)
    late, soon = mill.claim(2, now=T0)
    fold(mill)
    with other.conn.transaction():
        other.complete(late, now=T0 + 20 * S)
        mill.complete(soon, now=T0 + 20 * S)
        fold(mill, T0 + 4 * M)
        assert totals(mill)["completed"] == 1
    fold(mill, T0 + 5 * M)
    assert totals(mill)["completed"] == 2


def test_transaction_that_began_after_the_stretch_holds_nothing_up(mill: Mill) -> None:
    mill.new(T0)
    folding = Folding(mill.store, now=T0 + 10 * S)
    folding.mark()
    other = mill.another()
    with other.conn.transaction():
        other.new(T0 + 10 * S)
        folding.step()
        assert folding.step()["arrived"] == 1


def test_while_one_pass_folds_the_others_go_on_without(mill: Mill) -> None:
    work(mill)
    other = mill.another()
    with other.conn.transaction():
        other.conn.execute("select 1 from tidemill.counter_state for update")
        assert fold(mill) == {}
    fold(mill)
    assert totals(mill) == WORKED


def test_pass_that_dies_while_it_folds_counts_nothing(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: object) -> None:
        raise psycopg.OperationalError("gone")

    work(mill)
    folding = Folding(mill.store, now=T0 + 10 * S)
    folding.mark()
    folding.step()
    with monkeypatch.context() as broken, pytest.raises(psycopg.OperationalError):
        broken.setattr(mill.store, "keep_progress", gone)
        folding.step()
    fold(mill)
    assert totals(mill) == WORKED


def test_scheduler_that_was_away_for_days_catches_up_without_walking_the_empty_minutes(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    mill.enqueue_all([{}] * 3, now=T0)
    fold(mill)
    work(mill, T0 + 5 * DAY)
    calls: list[datetime] = []
    real = mill.store.fold_counters
    monkeypatch.setattr(mill.store, "fold_counters", lambda since, until: (calls.append(since), real(since, until))[1])
    fold(mill, T0 + 9 * DAY)
    assert totals(mill)["arrived"] == 13
    assert len(calls) <= 5


def test_job_types_are_kept_as_they_arrive(mill: Mill) -> None:
    mill.enqueue_all([{"job_type": "a"}, {"job_type": "b"}, {"job_type": "a"}], now=T0)
    fold(mill)
    assert mill.conn.execute("select name from tidemill.job_types order by name").fetchall() == [("a",), ("b",)]


def test_latencies_are_counted_in_buckets(mill: Mill) -> None:
    mill.enqueue_all([{}] * 2, now=T0)
    for job in mill.claim(2, now=T0 + 2 * S):
        mill.complete(job, now=T0 + 3 * S)
    fold(mill, T0 + 30 * S)
    rows = mill.conn.execute("select bucket, waits, runs from tidemill.queue_latencies order by bucket").fetchall()
    # 1,000 ms lie in [2^9.75, 2^10), 2,000 ms in [2^10.75, 2^11)
    assert rows == [(39, 0, 2), (43, 2, 0)]
