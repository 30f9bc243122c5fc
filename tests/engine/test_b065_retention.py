"""B065: prune removes what has been over for long enough, and nothing else."""

import uuid
from datetime import datetime, timedelta

import pytest

from harness.mill import DAY, FIXED, T0, H, Mill, S
from tidemill.domain.transitions import Event, State, Transition
from tidemill.engine import batch as batches
from tidemill.engine.operate import cancel, retry
from tidemill.engine.prune import prune
from tidemill.store.sweeps import Sweeps

BORN = T0 - 400 * DAY
RETENTION = {"retention_completed_ms": 86_400_000, "retention_cancelled_ms": 86_400_000, "retention_dead_letter_ms": 30 * 86_400_000}


def old(mill: Mill, **spec: object) -> str:
    return mill.new(BORN, queue="day", **spec)


def ended(mill: Mill, how: str, at: datetime, **spec: object) -> str:
    """A job born 400 days ago that ended `how` at that time."""
    job_id = old(mill, job_type=how, max_attempts=1, **spec)
    if how == "cancelled":
        cancel(mill.store, mill.project_id, job_id, roll=mill.roll, now=at)
        return job_id
    job = mill.claim_job(job_id, queues=["day"], job_types=[how], now=at)
    if how == "completed":
        mill.complete(job, now=at)
    elif how == "dead_letter":
        mill.fail(job, now=at)
    else:
        from tidemill.domain.jobs import Lease, Move
        from tidemill.domain.transitions import ExecutionStatus

        step = Transition(State.QUARANTINED, ExecutionStatus.CRASHED, 1, 3, reason="crash")
        mill.store.settle([Move(Lease(job.job_id, job.lease_token), step)], now=at)
    assert mill.state(job_id) == how
    return job_id


def test_b065_the_survivors_are_as_tabled(mill: Mill) -> None:
    mill.queue("day", **RETENTION)
    mill.queue("paused", is_paused=True, **RETENTION)
    kept = {
        "scheduled for next year": old(mill, job_type="later", run_at="2031-01-01T00:00:00Z"),
        "held": old(mill, job_type="held", hold=True),
        "queued, never claimed": old(mill, job_type="waiting"),
        "on a paused queue": mill.new(BORN, queue="paused"),
        "in retry": old(mill, job_type="retrying", retry_policy=FIXED),
        "running": old(mill, job_type="running"),
        "completed two hours ago": ended(mill, "completed", T0 - 2 * H),
        "cancelled two hours ago": ended(mill, "cancelled", T0 - 2 * H),
        "dead two hours ago": ended(mill, "dead_letter", T0 - 2 * H),
        "dead two days ago": ended(mill, "dead_letter", T0 - 2 * DAY),
        "quarantined two days ago": ended(mill, "quarantined", T0 - 2 * DAY),
        "completed two days ago, kept for longer": ended(mill, "completed", T0 - 2 * DAY, retention_ms=3 * 86_400_000),
        "cancelled two days ago, kept for longer": ended(mill, "cancelled", T0 - 2 * DAY, retention_ms=3 * 86_400_000),
        "completed two days ago, its ttl key runs on": ended(
            mill, "completed", T0 - 2 * DAY, unique={"window": "ttl", "ttl_ms": 401 * 86_400_000}
        ),
    }
    mill.fail(mill.claim_job(kept["in retry"], queues=["day"], job_types=["retrying"], now=T0 - 2 * DAY), now=T0 - 2 * DAY)
    mill.claim_job(kept["running"], queues=["day"], job_types=["running"], now=BORN)
    gone = {
        "completed two days ago": ended(mill, "completed", T0 - 2 * DAY),
        "cancelled two days ago": ended(mill, "cancelled", T0 - 2 * DAY),
        "dead for 31 days": ended(mill, "dead_letter", T0 - 31 * DAY),
        "completed an hour ago, kept for a minute": ended(mill, "completed", T0 - H, retention_ms=60_000),
        "dead an hour ago, kept for a minute": ended(mill, "dead_letter", T0 - H, retention_ms=60_000),
        "cancelled an hour ago, kept for no time": ended(mill, "cancelled", T0 - H, retention_ms=0),
        "completed with a key that ran out": ended(mill, "completed", T0 - 2 * DAY, unique={"window": "ttl", "ttl_ms": 1_000, "by": ["a"]}),
        "answered an idempotency key": ended(mill, "completed", T0 - 2 * DAY, idempotency_key="once"),
    }
    assert prune(mill.store, now=T0)["jobs"] == len(gone)
    alive = {row[0] for row in mill.conn.execute("select id::text from tidemill.jobs")}
    assert {name for name, job_id in {**kept, **gone}.items() if job_id in alive} == set(kept)
    assert mill.misplaced() == []
    assert prune(mill.store, now=T0)["jobs"] == 0
    assert mill.put(T0, queue="day", idempotency_key="once").deduplicated is False


@pytest.mark.parametrize("how", ["completed", "cancelled", "dead_letter"])
def test_b065_age_counts_from_the_end_to_the_moment(mill: Mill, how: str) -> None:
    mill.queue("day", retention_completed_ms=1_000, retention_cancelled_ms=2_000, retention_dead_letter_ms=3_000)
    job_id = ended(mill, how, T0)
    due = T0 + {"completed": 1, "cancelled": 2, "dead_letter": 3}[how] * S
    assert prune(mill.store, now=due - timedelta(milliseconds=1))["jobs"] == 0
    assert prune(mill.store, now=due)["jobs"] == 1
    assert mill.store.state(mill.project_id, job_id) is None
    for table in ("jobs", "job_executions", "dead_letter_queue", "unique_holds", "job_logs"):
        assert mill.count(table) == 0


def test_b065_each_pass_is_bounded_and_the_next_one_goes_on(mill: Mill) -> None:
    mill.queue("day", **RETENTION)
    mill.enqueue_all([{"queue": "day"}] * 25, now=BORN)
    for job in mill.claim(25, queues=["day"], now=BORN):
        mill.complete(job, now=BORN)
    for _ in range(5):
        ended(mill, "cancelled", BORN)
    assert [prune(mill.store, limit=12, now=T0)["jobs"] for _ in range(4)] == [12, 12, 6, 0]


def test_b065_a_dead_job_retried_while_prune_is_at_work_survives(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    mill.queue("day", **RETENTION)
    job_id = ended(mill, "dead_letter", T0 - 31 * DAY)
    listed = Sweeps.prunable

    def listed_then_retried(self: Sweeps, limit: int, *, now: datetime | None) -> list[tuple[str, str]]:
        found = listed(self, limit, now=now)
        other = mill.another()
        assert retry(other.store, mill.project_id, job_id, now=T0) is State.QUEUED
        return found

    monkeypatch.setattr(Sweeps, "prunable", listed_then_retried)
    assert prune(mill.store, now=T0)["jobs"] == 0
    assert mill.state(job_id, now=T0) == "queued"
    assert mill.misplaced() == []


def test_b065_an_expired_ttl_key_is_swept_and_a_taken_over_one_is_not(mill: Mill) -> None:
    unique = {"window": "ttl", "ttl_ms": 1_000}
    mill.new(T0, unique=unique)
    assert prune(mill.store, now=T0)["unique_keys"] == 0
    second = mill.new(T0 + 2 * S, unique=unique)
    assert mill.holder() == [second]
    assert prune(mill.store, now=T0 + 2 * S)["unique_keys"] == 0
    assert prune(mill.store, now=T0 + 3 * S)["unique_keys"] == 1


def test_b065_a_live_lease_is_never_pruned_with_its_worker(mill: Mill) -> None:
    from tidemill.domain.jobs import Registration
    from tidemill.engine import worker

    worker.register(mill.store, mill.project_id, mill.worker_id, Registration("w", ["default"]), now=BORN)
    job = mill.claim_job(mill.new(T0), now=T0)
    assert prune(mill.store, now=T0)["workers"] == 1
    assert mill.complete(job, now=T0).status == "ok"
    assert mill.ack(job, Event.FAIL, now=T0).status == "lease_lost"


def test_b065_a_batch_goes_a_day_after_its_end_with_the_last_of_its_jobs(mill: Mill) -> None:
    def made(jobs: int, *, sealed: bool = True) -> str:
        batch_id = str(uuid.uuid4())
        spec = {"job_type": "m", "queue": "day"}
        batches.create(mill.store, mill.project_id, batch_id, callbacks={}, jobs=[spec] * jobs, sealed=sealed, now=BORN)
        return batch_id

    def there() -> set[str]:
        return {row[0] for row in mill.conn.execute("select id::text from tidemill.job_batches")}

    mill.queue("day", **RETENTION)
    made(2)
    still_open, running = made(0, sealed=False), made(0, sealed=False)
    for job in mill.claim(2, queues=["day"], now=T0 - 2 * DAY):
        mill.complete(job, now=T0 - 2 * DAY)
    batches.add(mill.store, mill.project_id, running, [{"job_type": "m", "queue": "day"}], now=T0 - 2 * DAY)
    batches.seal(mill.store, mill.project_id, running, now=T0 - 2 * DAY)
    empty = str(uuid.uuid4())
    batches.create(mill.store, mill.project_id, empty, callbacks={}, jobs=[], sealed=True, now=T0)
    counts = prune(mill.store, limit=1, now=T0)
    assert (counts["jobs"], counts["batches"]) == (1, 0), "one of its jobs is left"
    assert prune(mill.store, now=T0)["batches"] == 1
    assert there() == {still_open, running, empty}
    assert prune(mill.store, now=T0 + DAY - S)["batches"] == 0
    assert prune(mill.store, now=T0 + DAY)["batches"] == 1
    assert there() == {still_open, running}


def test_b065_batches_that_are_kept_do_not_keep_prune_from_the_others(mill: Mill) -> None:
    """The oldest forty have a job each that stays; a pass looks at two of those, and at two by chance."""
    mill.conn.execute(
        "insert into tidemill.job_batches (id, project_id, status, sealed_at, finalized_at)"
        " select gen_random_uuid(), %s, 'completed', %s, %s::timestamptz + n * interval '47 minutes' from generate_series(1, 60) n",
        [mill.project_id, BORN, BORN],
    )
    for (batch_id,) in mill.conn.execute("select id from tidemill.job_batches order by finalized_at limit 40").fetchall():
        mill.conn.execute("update tidemill.jobs set batch_id = %s where id = %s", [batch_id, mill.new(T0)])
    for _ in range(2_000):
        prune(mill.store, limit=2, now=BORN + 4 * DAY)
        if mill.count("job_batches") == 40:
            break
    assert mill.count("job_batches") == 40
