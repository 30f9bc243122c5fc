"""Any number of reapers may run at once, and any of them may be killed at any point: each lease is reaped once."""

import threading
from concurrent.futures import ThreadPoolExecutor

from harness.mill import FIXED, Mill, until
from harness.processes import actors
from tidemill.engine.reap import Reaped
from tidemill.engine.tick import tick


def lapsed(mill: Mill, count: int) -> list[str]:
    """Jobs whose worker is gone and whose lease has run out."""
    mill.enqueue_all([{"retry_policy": FIXED, "payload": n} for n in range(count)])  # of fingerprints of their own
    ids = []
    while jobs := mill.claim(500):
        ids += [job.job_id for job in jobs]
    mill.lapse(*ids)
    return ids


def attempts(mill: Mill) -> list[tuple[int, int]]:
    return mill.conn.execute(
        "select n, count(*)::int from (select count(*)::int as n from tidemill.job_executions group by job_id) c group by n order by n"
    ).fetchall()


def test_ten_reapers_at_once_reap_each_lease_once(mill: Mill) -> None:
    lapsed(mill, 1_000)
    mills = [mill.another() for _ in range(10)]
    gate = threading.Barrier(10)

    def reaps(one: Mill) -> list[Reaped]:
        gate.wait(timeout=120)
        return [one.reap(limit=37) for _ in range(12)]

    with ThreadPoolExecutor(10) as pool:
        counts = [reaped.expired for reaps_of_one in pool.map(reaps, mills) for reaped in reaps_of_one]
    counts.append(mill.reap(limit=1_000).expired)
    assert sum(counts) == 1_000
    assert len([count for count in counts if count]) > 10
    assert attempts(mill) == [(1, 1_000)]
    assert mill.count("job_queue_entries") == 1_000
    assert mill.misplaced() == []


def test_ten_ticks_at_once_count_each_lease_once_and_report_no_error(mill: Mill) -> None:
    lapsed(mill, 600)
    mill.enqueue_all([{"retention_ms": 0}] * 300)
    for job in mill.claim(300):
        mill.complete(job)
    mills = [mill.another() for _ in range(10)]
    with ThreadPoolExecutor(10) as pool:
        ticks = list(pool.map(lambda one: tick(one.store, roll=mill.roll, clock=lambda: 0.0), mills))
    ticks.append(tick(mill.store, roll=mill.roll, clock=lambda: 0.0))
    assert [phase.error for phases in ticks for phase in phases if phase.error] == []
    found = {name: sum(phase.counts.get(count, 0) for phases in ticks for phase in phases if phase.name == name)
             for name, count in (("reap", "expired"), ("prune", "jobs"))}  # fmt: skip
    assert found == {"reap": 600, "prune": 300}
    assert attempts(mill) == [(1, 600)]
    assert mill.misplaced() == []


def test_a_reaper_killed_in_the_middle_of_a_pass_leaves_everything_to_the_others(mill: Mill) -> None:
    ids = lapsed(mill, 400)
    with actors(mill, "stuck", 2, 60) as stuck:
        assert [one.line() for one in stuck] == ["holding", "holding"]
        with actors(mill, "reap", 3, 50) as others:
            reaped = sum(sum(one.rest()) for one in others)  # they neither wait for the stuck ones nor take theirs
        assert reaped == 400 - 120
        assert attempts(mill) == [(1, 280)]
        for one in stuck:
            one.kill()
    rest = 0
    while rest < 120:
        rest += mill.reap(limit=100).expired
    assert mill.reap().expired == 0
    assert attempts(mill) == [(1, 400)]
    assert {row[0] for row in mill.conn.execute("select job_id::text from tidemill.job_executions")} == set(ids)
    assert mill.misplaced() == []


def test_a_worker_killed_in_the_middle_of_a_claim_leaves_the_jobs_to_the_others(mill: Mill) -> None:
    mill.enqueue_all([{}] * 20)
    with actors(mill, "claims", 1, 20) as (actor,):
        assert len(actor.line()) == 20
        assert actor.line() == "holding"
        assert mill.claim(20) == []  # skipped, not waited for
        actor.kill()
    mill.store.watermarks.forget()
    jobs = until(lambda: mill.claim(20))
    assert {(job.attempt, job.fence) for job in jobs} == {(1, 1)}


def test_reapers_workers_and_late_acks_meet_and_every_attempt_ends_once(mill: Mill) -> None:
    """Leases lapse while their workers complete them: each ends by exactly one of the two."""
    ids = lapsed(mill, 500)
    jobs = mill.conn.execute("select job_id::text, lease_token::text from tidemill.job_leases").fetchall()
    from tidemill.domain.jobs import Lease

    workers, reapers = [mill.another() for _ in range(3)], [mill.another() for _ in range(3)]
    gate = threading.Barrier(6)

    def acks(step: int) -> int:
        gate.wait(timeout=120)
        return sum(workers[step].complete(Lease(*pair)).status == "ok" for pair in jobs[step::3])

    def reaps(one: Mill) -> int:
        gate.wait(timeout=120)
        return sum(one.reap(limit=7).expired for _ in range(60))

    with ThreadPoolExecutor(6) as pool:
        acked = [pool.submit(acks, step) for step in range(3)]
        reaped = [pool.submit(reaps, one) for one in reapers]
        done, expired = sum(f.result() for f in acked), sum(f.result() for f in reaped)
    expired += mill.reap().expired
    assert done + expired == 500
    assert attempts(mill) == [(1, 500)]
    rows = mill.conn.execute("select status::text, count(*)::int from tidemill.job_executions group by 1").fetchall()
    assert dict(rows) == {k: v for k, v in {"completed": done, "lease_expired": expired}.items() if v}
    assert len(ids) == 500
    assert mill.misplaced() == []
