"""B003, B004: a job lives by its lease alone, and a heartbeat only ever lengthens it."""

import threading
from datetime import timedelta

import pytest

from harness.mill import T0, Mill, S, lease_of
from tidemill.domain.errors import NotFound
from tidemill.domain.jobs import Registration
from tidemill.engine import report, worker
from tidemill.engine.operate import cancel


def test_b003_a_restarted_worker_does_not_keep_its_old_leases_alive(mill: Mill) -> None:
    registration = Registration("pod-1", ["default"])
    worker.register(mill.store, mill.project_id, mill.worker_id, registration, now=T0)
    old = [mill.new(T0), mill.new(T0)]
    assert len(mill.claim(2, now=T0)) == 2
    reborn = mill.another()
    worker.register(reborn.store, mill.project_id, reborn.worker_id, registration, now=T0 + 10 * S)
    job = reborn.claim_job(reborn.new(T0 + 10 * S), now=T0 + 10 * S)
    reborn.beat(job, now=T0 + 29 * S)
    untouched = mill.stored(job.job_id)
    assert mill.reap(now=T0 + 31 * S).expired == 2
    assert mill.stored(job.job_id) == untouched
    later = T0 + 31 * S + timedelta(hours=1)
    again = mill.claim(10, now=later)
    assert sorted(j.job_id for j in again) == sorted(old)
    assert [j.attempt for j in again] == [2, 2]


def test_b003_a_worker_that_reuses_its_id_does_not_keep_old_leases_alive_either(mill: Mill) -> None:
    mill.new(T0)
    mill.claim(1, now=T0)
    job = mill.claim_job(mill.new(T0), now=T0)
    mill.beat(job, now=T0 + 20 * S)
    assert mill.reap(now=T0 + 31 * S).expired == 1


def test_b003_a_missing_worker_row_neither_hides_nor_frees_its_jobs(mill: Mill) -> None:
    worker.register(mill.store, mill.project_id, mill.worker_id, Registration("pod-1", ["default"]), now=T0)
    job = mill.claim_job(mill.new(T0), now=T0)
    mill.conn.execute("delete from tidemill.workers")
    assert mill.reap(now=T0 + 29 * S).expired == 0
    assert mill.beat(job, now=T0 + 29 * S).lost == []
    assert mill.reap(now=T0 + 31 * S).expired == 0
    assert mill.reap(now=T0 + 60 * S).expired == 1


def test_b004_a_job_six_times_as_long_as_its_lease_runs_once(mill: Mill) -> None:
    job_id = mill.new(T0)
    job = mill.claim_job(job_id, lease_ms=5_000, now=T0)
    others = [mill.another() for _ in range(2)]
    ends = [job.lease_expires_at]
    for second in range(1, 31):
        now = T0 + second * S
        if second % 2 == 0:
            (kept,) = mill.beat(job, now=now).leases
            ends.append(kept.lease_expires_at)
            row = mill.conn.execute("select lease_expires_at from tidemill.job_leases").fetchone()
            assert row == (kept.lease_expires_at,)
        assert mill.reap(now=now).expired == 0
        assert [other.claim(10, now=now) for other in others] == [[], []]
    assert ends == sorted(ends)
    assert ends[-1] == T0 + 35 * S
    assert mill.complete(job, now=T0 + 30 * S).state == "completed"
    assert mill.view(job_id)["attempt_count"] == 1
    assert list(mill.beat(job, now=T0 + 30 * S).lost) == [job_id]


def test_b004_a_heartbeat_from_a_slow_clock_never_shortens_a_lease(mill: Mill) -> None:
    job = mill.claim_job(mill.new(T0), now=T0)
    mill.beat(job, now=T0 + 20 * S)
    (kept,) = mill.beat(job, now=T0 + 5 * S).leases
    assert kept.lease_expires_at == T0 + 50 * S


def test_b004_concurrent_heartbeats_never_shorten_and_never_lose(mill: Mill) -> None:
    job = mill.claim_job(mill.new(T0), now=T0)
    mills = [mill.another(worker_id=mill.worker_id) for _ in range(4)]
    problems: list[object] = []

    def beats(one: Mill, step: int) -> None:
        for i in range(60):
            answer = one.beat(job, now=T0 + (i * 4 + step) * 0.1 * S)
            if answer.lost or answer.leases[0].lease_expires_at < T0 + 30 * S:
                problems.append(answer)

    threads = [threading.Thread(target=beats, args=(one, step)) for step, one in enumerate(mills)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert mill.beat(job, now=T0).leases[0].lease_expires_at >= T0 + 30 * S


def test_b004_a_long_report_of_the_job_does_not_keep_its_heartbeats_out(mill: Mill) -> None:
    """Progress and children hold the lease while they write; a heartbeat that skipped it would let it run out."""
    job = mill.claim_job(mill.new(T0), now=T0)
    writer = mill.another()
    with writer.store.transaction():
        assert writer.store.hold_lease(mill.project_id, lease_of(job)) is not None
        (kept,) = mill.beat(job, now=T0 + 10 * S).leases
        assert kept.lease_expires_at == T0 + 40 * S
        report.progress(mill.store, lease_of(job), 1, now=T0)


def test_b004_a_heartbeat_tells_of_a_cancel_and_of_lost_leases_apart(mill: Mill) -> None:
    mill.enqueue_all([{}, {}, {}], now=T0)
    jobs = mill.claim(3, now=T0)
    ids = [job.job_id for job in jobs]
    cancel(mill.store, mill.project_id, ids[0], roll=mill.roll, now=T0)
    mill.complete(jobs[1], now=T0)
    answer = mill.beat(*jobs, now=T0 + S)
    assert list(answer.cancel) == [ids[0]]
    assert list(answer.lost) == [ids[1]]
    assert sorted(kept.job_id for kept in answer.leases) == sorted([ids[0], ids[2]])


def test_deregistering_releases_every_lease_however_many_and_costs_no_attempt(mill: Mill) -> None:
    worker.register(mill.store, mill.project_id, mill.worker_id, Registration("w", ["default"]), now=T0)
    mill.enqueue_all([{} for _ in range(1_000)], now=T0)
    mill.enqueue_all([{} for _ in range(201)], now=T0)
    while mill.claim(500, now=T0):
        pass
    assert worker.deregister(mill.store, mill.project_id, mill.worker_id, roll=mill.roll, now=T0) == 1_201
    assert mill.count("job_leases") == 0
    assert mill.conn.execute("select distinct attempt_count from tidemill.job_queue_entries").fetchall() == [(0,)]
    with pytest.raises(NotFound):
        worker.deregister(mill.store, mill.project_id, mill.worker_id, roll=mill.roll)


def test_deregistering_goes_on_where_a_batch_lost_some_of_its_leases_to_their_own_acks(mill: Mill) -> None:
    mill.enqueue_all([{} for _ in range(600)], now=T0)
    jobs = mill.claim(500, now=T0) + mill.claim(500, now=T0)
    listed = mill.store.leases_of

    def listed_and_one_acked(project_id: str, worker_id: str, limit: int) -> object:
        found = listed(project_id, worker_id, limit)
        mill.store.leases_of = listed
        first = next(job for job in jobs if job.job_id == found[0].job_id)
        other = mill.another()
        other.complete(first, now=T0)
        return found

    mill.store.leases_of = listed_and_one_acked
    assert worker.deregister(mill.store, mill.project_id, mill.worker_id, roll=mill.roll, now=T0) == 599
    assert mill.count("job_leases") == 0
