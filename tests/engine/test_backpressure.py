"""max_unfinished_jobs: what is unfinished is counted, what does not fit is refused whole or in part, and nobody overshoots."""

import json
import threading
from typing import Any

import pytest
from psycopg import errors

from harness.mill import M, Mill, S, until, waiting_on_locks
from harness.schedules import at, fire, put, show, told
from tidemill.domain.errors import Invalid, QueueFull
from tidemill.domain.schedule import Overlap
from tidemill.domain.transitions import Event
from tidemill.engine import batch
from tidemill.engine.operate import cancel, retry
from tidemill.engine.quarantine import end_quarantine


def bounded(mill: Mill, most: int | None, queue: str = "default") -> None:
    mill.conn.execute("update tidemill.queues set max_unfinished_jobs = %s where name = %s", [most, queue])


def by_sql(mill: Mill, *jobs: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What an application's own statement gets."""
    given = json.dumps([{"job_type": "t", **job} for job in jobs])
    return mill.conn.execute('select "index", state::text from tidemill.enqueue(%s, %s)', [mill.project_id, given]).fetchall()


def test_full_queue_refuses_with_a_time_to_come_back(mill: Mill) -> None:
    bounded(mill, 2)
    mill.enqueue_all([{}] * 2)
    with pytest.raises(QueueFull, match="queue 'default' is full: it may hold 2 unfinished jobs and has room for 0 of these 1") as refused:
        mill.new()
    assert refused.value.retry_after_secs == 2
    assert mill.count("jobs") == 2


def test_everything_unfinished_counts_and_nothing_else(mill: Mill) -> None:
    bounded(mill, 5)
    mill.die(mill.new(max_attempts=1))
    mill.complete(mill.claim_job(mill.new()))
    cancel(mill.store, mill.project_id, mill.new(), roll=mill.roll)
    running = mill.claim_job(mill.new())
    mill.new(hold=True)
    mill.new(delay_ms=3_600_000)
    mill.new(depends_on=[mill.new()])
    with pytest.raises(QueueFull):
        mill.new()
    mill.complete(running)
    mill.new()


@pytest.mark.parametrize("end", [Event.COMPLETE, Event.ACK_CANCELLED, Event.FAIL])
def test_place_is_free_as_soon_as_a_job_has_ended(mill: Mill, end: Event) -> None:
    bounded(mill, 1)
    for _ in range(5):
        mill.ack(mill.claim_job(mill.new(max_attempts=1)), end)


def test_retry_that_waits_keeps_its_place(mill: Mill) -> None:
    bounded(mill, 1)
    mill.fail(mill.claim_job(mill.new()))
    with pytest.raises(QueueFull):
        mill.new()


def test_atomic_bulk_is_refused_whole(mill: Mill) -> None:
    mill.queue("other")
    bounded(mill, 3)
    with pytest.raises(QueueFull, match="has room for 3 of these 4"):
        mill.enqueue_all([{}] * 4 + [{"queue": "other"}])
    assert mill.count("jobs") == 0
    mill.enqueue_all([{}] * 3 + [{"queue": "other"}])


def test_bulk_that_may_be_split_lets_in_what_fits(mill: Mill) -> None:
    mill.queue("other")
    bounded(mill, 2)
    results = mill.enqueue_all([{}, {"queue": "other"}, {}, {}, {"queue": "other"}, {}], atomic=False)
    assert {r.position: r.code for r in results if r.code} == {3: "queue_full", 5: "queue_full"}
    assert sorted(r.position for r in results) == list(range(6))
    assert mill.count("jobs") == 4


def test_full_queue_answers_for_keys_that_it_knows(mill: Mill) -> None:
    bounded(mill, 2)
    first = mill.new(idempotency_key="a")
    second = mill.new(unique={"window": "running"}, payload={"n": 1})
    again = [mill.put(idempotency_key="a"), mill.put(unique={"window": "running"}, payload={"n": 1})]
    assert [(r.job_id, r.deduplicated) for r in again] == [(first, True), (second, True)]
    with pytest.raises(QueueFull):
        mill.new(idempotency_key="b")


def test_duplicates_within_one_call_take_one_place(mill: Mill) -> None:
    bounded(mill, 1)
    results = mill.enqueue_all([{"unique": {"window": "running"}}] * 5)
    assert len({r.job_id for r in results}) == 1


def test_what_depends_on_one_that_stays_out_stays_out_with_it(mill: Mill) -> None:
    mill.queue("other")
    bounded(mill, 1)
    jobs: list[dict[str, Any]] = [{"ref": "a"}, {"ref": "b"}, {"queue": "other", "ref": "c", "depends_on": [{"ref": "b"}]}]
    jobs += [{"queue": "other", "depends_on": [{"ref": "c"}]}, {"queue": "other", "depends_on": [{"ref": "a"}]}]
    results = {r.position: r.code for r in mill.enqueue_all(jobs, atomic=False)}
    assert results == {0: None, 1: "queue_full", 2: "queue_full", 3: "queue_full", 4: None}


def test_statement_of_an_application_is_refused_by_its_own_code(mill: Mill) -> None:
    bounded(mill, 1)
    assert by_sql(mill, {}) == [(0, "queued")]
    with pytest.raises(errors.DatabaseError, match=r"jobs\[0\].queue: queue 'default' is full") as refused:
        by_sql(mill, {})
    assert refused.value.sqlstate == "TM429"


def test_limit_of_none_closes_a_queue_to_new_jobs_only(mill: Mill) -> None:
    job = mill.new()
    bounded(mill, 0)
    with pytest.raises(QueueFull):
        mill.new()
    mill.fail(mill.claim_job(job), retry_delay_ms=0)
    assert mill.state(job) in ("queued", "scheduled"), "what is in stays in"


def test_lifted_limit_lets_everybody_in(mill: Mill) -> None:
    bounded(mill, 0)
    with pytest.raises(QueueFull):
        mill.new()
    bounded(mill, None)
    mill.enqueue_all([{}] * 10)


def test_full_queue_takes_back_what_it_owned_before(mill: Mill) -> None:
    """An operator's retry and release go over the limit: what was accepted once is not lost because others came meanwhile."""
    mill.conn.execute("update tidemill.queues set max_unfinished_jobs = 2, quarantine_after = 1")
    dead = mill.new(payload="dies")
    mill.die(dead)
    aside = mill.new(payload="kills")
    mill.lapse(mill.claim_job(aside).job_id)
    assert mill.reap().quarantined == 1
    mill.enqueue_all([{}] * 2)
    with pytest.raises(QueueFull):
        mill.new()
    assert retry(mill.store, mill.project_id, dead)
    row = mill.conn.execute("select encode(fingerprint, 'hex') from tidemill.jobs where id = %s", [aside]).fetchone()
    assert row is not None
    assert end_quarantine(mill.store, mill.project_id, row[0], "release") == 1
    assert [mill.state(job_id) for job_id in (dead, aside)] == ["queued", "queued"]
    mill.complete(mill.claim_one())
    with pytest.raises(QueueFull):  # three are left of two that it may hold: what came back counts
        mill.new()
    for _ in range(2):
        mill.complete(mill.claim_one())
    mill.new()


def test_other_faults_are_told_as_ever(mill: Mill) -> None:
    bounded(mill, 5)
    with pytest.raises(Invalid, match="queue 'nowhere' does not exist"):
        mill.new(queue="nowhere")


def test_members_of_a_batch_are_bounded_and_its_callback_is_owed(mill: Mill) -> None:
    bounded(mill, 2)
    made = "00000000-0000-4000-8000-00000000000b"
    members = [{"job_type": "t"}, {"job_type": "t"}]
    with pytest.raises(QueueFull):
        batch.create(mill.store, mill.project_id, made, jobs=[*members, {"job_type": "t"}])
    batch.create(mill.store, mill.project_id, made, jobs=members, callbacks={"on_complete": {"job_type": "done"}}, sealed=True)
    first, second = mill.claim(2)
    mill.complete(first)
    mill.new()
    with mill.conn.transaction():  # in which the place of the second is still taken when the callback comes
        mill.complete(second)
    with pytest.raises(QueueFull):
        mill.new()
    assert mill.conn.execute("select count(*) from tidemill.jobs where job_type = 'done'").fetchone() == (1,), "however full its queue is"


def test_two_who_enqueue_at_once_wait_for_each_other_and_do_not_overshoot(mill: Mill) -> None:
    bounded(mill, 10)
    other, refused = mill.another(), []

    def enqueue() -> None:
        try:
            other.enqueue_all([{}] * 6)
        except QueueFull as error:
            refused.append(error)

    with mill.conn.transaction():
        mill.enqueue_all([{}] * 6)
        thread = threading.Thread(target=enqueue)
        thread.start()
        observer = mill.another()
        until(lambda: waiting_on_locks(observer.conn))
    thread.join(timeout=120)
    assert len(refused) == 1
    assert mill.count("jobs") == 6


@pytest.mark.parametrize("closes", [False, True])
def test_single_job_that_waited_for_its_turn_knows_what_has_happened_meanwhile(mill: Mill, closes: bool) -> None:
    """It is due from when its turn came (a claim does not look further back), and no job of a queue that was closed."""
    bounded(mill, 10)
    other, observer, refused = mill.another(), mill.another(), []

    def enqueue() -> None:
        try:
            other.new()
        except Invalid as error:
            refused.append(error)

    with mill.conn.transaction():
        mill.enqueue_all([{}])
        thread = threading.Thread(target=enqueue)
        thread.start()
        until(lambda: waiting_on_locks(observer.conn))
        observer.conn.execute("update tidemill.queues set is_closed = %s", [closes])
        row = observer.conn.execute("select clock_timestamp()").fetchone()
    thread.join(timeout=120)
    assert (len(refused), mill.count("jobs")) == ((1, 1) if closes else (0, 2))
    behind = mill.conn.execute("select count(*) from tidemill.job_queue_entries where run_at < %s", row).fetchone()
    assert behind == (1,), "that of the one who was waited for"


def test_older_snapshot_cannot_overshoot(mill: Mill) -> None:
    """An application's REPEATABLE READ does not see what came in since it began; it fails rather than count wrongly."""
    bounded(mill, 3)
    mill.new()
    app = mill.another()
    app.conn.execute("begin isolation level repeatable read")
    app.conn.execute("select 1 from tidemill.jobs")
    mill.enqueue_all([{}] * 2)
    with pytest.raises(errors.SerializationFailure):
        by_sql(app, {})
    app.conn.execute("rollback")
    assert mill.count("jobs") == 3


def test_queues_are_locked_in_one_order(mill: Mill) -> None:
    for name in ("a", "b"):
        mill.queue(name, max_unfinished_jobs=1_000)
    workers, faults = [mill.another() for _ in range(4)], []

    def enqueue(worker: Mill, names: tuple[str, str]) -> None:
        try:
            for _ in range(20):
                worker.enqueue_all([{"queue": name} for name in names])
        except errors.Error as error:
            faults.append(error)

    threads = [threading.Thread(target=enqueue, args=(w, ("a", "b") if i % 2 else ("b", "a"))) for i, w in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert faults == []
    assert mill.count("jobs") == 160


def test_large_queue_is_not_counted_for_each_job(mill: Mill) -> None:
    """Above 10,000 a count is due only when what is known leaves no room, and then at most each 50 ms per 10,000."""
    bounded(mill, 1_000_000)
    mill.new()
    mill.conn.execute("update tidemill.queue_fills set at_most = 1000000")
    counted = "select counted_at from tidemill.queue_fills"
    before = mill.conn.execute(counted.encode()).fetchone()
    with pytest.raises(QueueFull):
        mill.new()
    assert mill.conn.execute(counted.encode()).fetchone() == before
    mill.conn.execute("update tidemill.queue_fills set counted_at = counted_at - interval '5 seconds'")
    mill.new()
    assert mill.conn.execute("select at_most from tidemill.queue_fills").fetchone() == (2,)


@pytest.mark.parametrize("overlap", [Overlap.ALLOW, Overlap.BUFFER_ONE])
def test_schedule_skips_what_its_full_queue_has_no_room_for_and_goes_on(mill: Mill, overlap: Overlap) -> None:
    ten = at("2030-01-01 10:00")
    bounded(mill, 1)
    put(mill, "minutely", ten - 30 * S, overlap=overlap)
    counts = fire(mill, ten - 30 * S)
    assert (counts["fired"], counts["skipped"], counts["broken"]) == (1, 1, 0)
    kind, nominal, reason = told(mill, "minutely")[-1]
    assert (kind, nominal) == ("skipped", ten + M)
    assert reason is not None
    assert "is full" in reason or "finds no room" in reason
    assert show(mill, "minutely", ten).error is None
    for job in mill.claim(5, now=ten):
        mill.complete(job, now=ten)
    assert fire(mill, ten + M)["fired"] == 1
