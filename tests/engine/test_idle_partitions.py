"""Partitions that nobody has served for a day go; whoever comes back begins at the queue's clock, and nobody is lost beside claims."""

import threading

import pytest

from harness.mill import DAY, T0, H, Mill
from tidemill.engine.prune import prune
from tidemill.store import sweeps


def partitions(mill: Mill) -> list[str]:
    return [row[0] for row in mill.conn.execute("select partition_key from tidemill.queue_partitions order by 1")]


def served(mill: Mill, *names: str) -> None:
    mill.enqueue_all([{"partition_key": name} for name in names], now=T0)
    for job in mill.claim(10, now=T0):
        mill.complete(job, now=T0)
    while mill.claim(1, now=T0):  # finds the last ones empty
        pass


def test_idle_partitions_go_after_a_day_but_for_those_with_a_weight_or_with_work(mill: Mill) -> None:
    served(mill, "a", "b", "heavy")
    mill.conn.execute("update tidemill.queue_partitions set weight = 7 where partition_key = 'heavy'")
    assert prune(mill.store, now=T0 + 23 * H)["partitions"] == 0
    mill.new(partition_key="b", now=T0 + H)
    assert len(mill.claim(1, now=T0 + H)) == 1
    assert prune(mill.store, now=T0 + DAY + H / 2)["partitions"] == 1
    assert partitions(mill) == ["b", "heavy"]
    assert prune(mill.store, now=T0 + DAY + 2 * H)["partitions"] == 1
    mill.enqueue_all([{"partition_key": name} for name in ("a", "b")], now=T0 + 2 * DAY)
    assert len(mill.claim(10, now=T0 + 2 * DAY)) == 2


def test_queue_that_a_claim_is_at_for_long_is_left_to_a_later_pass(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "QUEUE_MS", 20)
    served(mill, "a")
    other = mill.another()
    with other.conn.transaction():
        other.conn.execute("select pg_advisory_xact_lock(tidemill.queue_lock(id)) from tidemill.queues")
        assert prune(mill.store, now=T0 + 2 * DAY)["partitions"] == 0
    assert prune(mill.store, now=T0 + 2 * DAY)["partitions"] == 1


def test_no_job_is_lost_while_partitions_go_and_come_back(mill: Mill) -> None:
    """One prunes as if a day were over all the time, one claims, one enqueues into the same few partitions."""
    pruner, claimer, over, faults = mill.another(), mill.another(), threading.Event(), list[object]()

    def pruning() -> None:
        try:
            while not over.is_set():
                pruner.store.prune_partitions(0, 100, now=None)
        except Exception as error:  # noqa: BLE001 - a thread's fault is the test's
            faults.append(error)

    thread = threading.Thread(target=pruning)
    thread.start()
    done = 0
    for n in range(30):
        mill.enqueue_all([{"partition_key": f"p{n % 3}"}] * 3)
        done += sum(claimer.complete(job).status == "ok" for job in claimer.claim(5))
    while done < 90 and (jobs := claimer.claim(50) or claimer.claim(50) or claimer.claim(50)):
        done += sum(claimer.complete(job).status == "ok" for job in jobs)
    over.set()
    thread.join()
    assert (done, faults) == (90, [])
