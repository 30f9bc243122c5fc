"""B051: a job that kills its workers is set aside after so many losses; ordinary failures do not count, and good jobs keep flowing."""

from typing import Any

import pytest

from harness.mill import T0, H, Mill, S, ack_of, failure
from tidemill.domain.errors import NotFound
from tidemill.domain.jobs import Edit
from tidemill.domain.transitions import Event, State
from tidemill.engine.explain import explain
from tidemill.engine.operate import cancel, edit, retry
from tidemill.engine.quarantine import end_quarantine, sweep

NOW = {"strategy": "fixed", "base_delay_ms": 0, "jitter": False}
BOMB = {"job_type": "bomb", "payload": {"n": 1}, "queue": "q", "retry_policy": NOW, "max_attempts": 20}


@pytest.fixture(autouse=True)
def queue(mill: Mill) -> None:
    mill.queue("q", quarantine_after=3)


def take(mill: Mill, job_id: str | None = None) -> Any:
    job = mill.claim_one(queues=["q"])
    assert job_id is None or job.job_id == job_id
    return job


def lose(mill: Mill) -> str:
    """The next job's lease is lost; its id."""
    job = take(mill)
    mill.lapse(job.job_id)
    assert mill.reap().expired == 1
    return str(job.job_id)


def crash(mill: Mill, exit_code: int = 137) -> str:
    job = take(mill)
    mill.ack(job, Event.CRASH, failure=failure("killed"), exit_code=exit_code)
    return str(job.job_id)


def fingerprint(mill: Mill, job_id: str) -> str:
    row = mill.conn.execute(
        "select encode(tidemill.fingerprint(job_type, payload), 'hex') from tidemill.jobs where id = %s", [job_id]
    ).fetchone()
    assert row is not None
    return str(row[0])


def quarantined(mill: Mill) -> int:
    """A bomb that has gone off three times."""
    return [lose(mill) for _ in range(3)].count("")


def passes(mill: Mill, limit: int = 7) -> dict[str, int]:
    """Steps of the sweep until nothing is left to do."""
    total: dict[str, int] = {}
    for _ in range(1000):
        counts = dict(sweep(mill.store, limit=limit))
        more = counts.pop("more")
        for key, value in counts.items():
            total[key] = total.get(key, 0) + value
        if not more:
            return total
    raise AssertionError("the sweep never ends")


def test_third_lost_lease_sets_the_job_aside_with_a_reason_of_its_own(mill: Mill) -> None:
    job_id = mill.new(**BOMB)
    lose(mill)
    lose(mill)
    assert mill.state(job_id) == State.QUEUED
    assert mill.claim_one(queues=["q"]).attempt == 3
    mill.lapse(job_id)
    assert mill.reap().quarantined == 1
    view = mill.view(job_id)
    assert (view["status"], view["final_reason"], view["crash_count"], view["finalized_at"]) == ("quarantined", "lease_expired", 3, None)
    assert view["fingerprint"] == "\\x" + fingerprint(mill, job_id)
    assert mill.claim(10, queues=["q"]) == []
    assert mill.misplaced() == []


def test_ordinary_failures_snoozes_and_releases_do_not_count(mill: Mill) -> None:
    job_id = mill.new(**BOMB)
    for turn in range(4):
        mill.ack(take(mill), Event.FAIL, failure=failure())
        mill.ack(take(mill), Event.RELEASE)
        mill.ack(take(mill), Event.SNOOZE, delay_ms=0)
        if turn < 2:
            crash(mill)
    assert (mill.state(job_id), mill.view(job_id)["crash_count"]) == ("queued", 2)
    crash(mill)
    assert mill.state(job_id) == State.QUARANTINED


def test_crashes_keep_their_exit_codes_and_count_like_lost_leases(mill: Mill) -> None:
    job_id = mill.new(**BOMB)
    crash(mill, -9)
    lose(mill)
    crash(mill, 139)
    assert [(x["status"], x["exit_code"]) for x in mill.executions(job_id)] == [("crashed", -9), ("lease_expired", None), ("crashed", 139)]
    [row] = mill.store.quarantines(mill.project_id)
    assert (row["job_type"], row["losses"], row["reason"], row["last_exit_code"], row["jobs"]) == ("bomb", 3, "crash", 139, 1)


def test_losses_are_counted_over_all_jobs_of_the_fingerprint_and_of_no_other(mill: Mill) -> None:
    twins = [mill.new(**BOMB) for _ in range(5)]
    other_payload = mill.new(**BOMB | {"payload": {"n": 1.0}})
    other_type = mill.new(**BOMB | {"job_type": "fine"})
    jobs = mill.claim(3, queues=["q"])
    assert [j.job_id for j in jobs] == twins[:3]
    mill.lapse(*twins[:3])
    assert mill.reap().quarantined == 3
    assert {mill.state(t) for t in twins} == {"quarantined"}
    assert {mill.state(other_payload), mill.state(other_type)} == {"queued"}
    assert [j.job_id for j in mill.claim(10, queues=["q"])] == [other_payload, other_type]


def test_keys_of_the_payload_in_any_order_are_one_fingerprint(mill: Mill) -> None:
    first = mill.new(**BOMB | {"payload": {"a": 1, "b": [{"x": 1, "y": 2}]}})
    second = mill.new(**BOMB | {"payload": {"b": [{"y": 2, "x": 1}], "a": 1}})
    assert fingerprint(mill, first) == fingerprint(mill, second)


def test_losses_older_than_a_day_do_not_count(mill: Mill) -> None:
    job_id = mill.new(T0, **BOMB)
    for at in (T0, T0 + 20 * H, T0 + 30 * H, T0 + 45 * H):
        job = mill.claim_one(queues=["q"], now=at)
        mill.reap(now=at + 40 * S)
        assert mill.state(job.job_id, now=at + H) == State.QUEUED
    mill.claim_one(queues=["q"], now=T0 + 46 * H)
    mill.reap(now=T0 + 47 * H)  # those after 30, 45 and 47 hours
    assert mill.state(job_id) == State.QUARANTINED


def test_losses_that_no_longer_count_are_forgotten_and_quarantined_ones_are_not(mill: Mill) -> None:
    mill.new(**BOMB)
    for _ in range(3):
        crash(mill)
    mill.new(**BOMB | {"payload": 2})
    crash(mill)
    assert mill.count("quarantine") == 2
    passes(mill)
    mill.conn.execute("update tidemill.quarantine set last_loss_at = now() - interval '25 hours'")
    assert passes(mill) == {"forgotten": 1}
    assert mill.count("quarantine") == 1


def test_a_cancel_that_was_asked_is_no_loss(mill: Mill) -> None:
    for _ in range(3):
        job_id = mill.new(**BOMB)
        take(mill, job_id)
        cancel(mill.store, mill.project_id, job_id, roll=mill.roll)
        mill.lapse(job_id)
        assert mill.reap().cancelled == 1
    assert mill.count("quarantine") == 0


def test_later_jobs_are_born_quarantined_by_api_and_by_sql(mill: Mill) -> None:
    mill.new(**BOMB)
    for _ in range(3):
        crash(mill)
    good = BOMB | {"payload": {"n": 2}}
    made = mill.enqueue_all([good, BOMB, good, BOMB | {"hold": True}, BOMB | {"delay_ms": 60_000}])
    assert [m.state for m in made] == ["queued", "quarantined", "queued", "quarantined", "quarantined"]
    by_sql = '[{"job_type": "bomb", "payload": {"n": 1}, "queue": "q"}, {"job_type": "bomb", "queue": "q"}]'
    rows = mill.conn.execute("select state::text from tidemill.enqueue(%s, %s::jsonb)", [mill.project_id, by_sql]).fetchall()
    assert rows == [("quarantined",), ("queued",)]
    assert mill.put(job_type="bomb", payload={"n": 1}, queue="q").state == "quarantined", "a plain job alone has a way of its own in"
    assert mill.misplaced() == []


def test_bombs_among_a_thousand_good_jobs_are_set_aside_and_the_good_ones_flow(mill: Mill) -> None:
    bombs = [{"job_type": "bomb", "payload": {"n": n}, "queue": "q", "retry_policy": NOW, "max_attempts": 20} for n in range(20)]
    good = [{"job_type": "fine", "payload": {"n": n}, "queue": "q", "retry_policy": NOW} for n in range(200)]
    for start in range(0, 1000, 200):
        mill.enqueue_all([*bombs[start // 50 : start // 50 + 4], *good])
    done, failed = 0, False
    while jobs := mill.claim(100, queues=["q"]):
        mill.settle([ack_of(j, Event.COMPLETE) for j in jobs if j.job_type == "fine"])
        done += sum(j.job_type == "fine" for j in jobs)
        lost = [j for j in jobs if j.job_type == "bomb"]
        if lost and not failed:  # an ordinary failure in between
            mill.fail(lost.pop(), retry_delay_ms=0)
            failed = True
        mill.lapse(*(j.job_id for j in lost))
        mill.reap()
    assert done == 1000
    assert len(mill.store.quarantines(mill.project_id, limit=50)) == 20
    states = mill.conn.execute("select status::text, count(*) from tidemill.job_states group by 1 order by 1").fetchall()
    assert states == [("completed", 1000), ("quarantined", 20)]


def test_waiting_twins_are_set_aside_at_once_up_to_a_bound_and_the_sweep_does_the_rest(mill: Mill) -> None:
    mill.queue("other", quarantine_after=3)
    mill.new(**BOMB)
    for start in range(0, 1500, 500):
        mill.enqueue_all([BOMB | {"payload": start + n} for n in range(500)])
    late = [
        mill.new(**BOMB | {"queue": queue, "priority": p, **more})
        for queue in ("q", "other")
        for p in (-2, 0, 7)
        for more in ({}, {"weight": 2}, {"partition_key": "p"}, {"delay_ms": 60_000}, {"hold": True})
    ]
    for _ in range(3):
        crash(mill)
    before = [mill.state(j) for j in late].count("quarantined")
    assert passes(mill, 50)["set_aside"] == len(late) - before
    assert {mill.state(j) for j in late} == {"quarantined"}
    assert mill.misplaced() == []


def test_the_claim_sets_aside_what_the_sweep_has_not_reached(mill: Mill) -> None:
    ids = [mill.new(**BOMB) for _ in range(30)]
    gated = [mill.new(**BOMB | {"queue": "default", "partition_key": "p"}) for _ in range(3)]
    good = [mill.new(**BOMB | {"payload": 2}), mill.new(**BOMB | {"payload": 2, "queue": "default", "partition_key": "p"})]
    unswept(mill, ids[0])
    [why] = [b for b in explain(mill.store, mill.project_id, ids[5]).blocked_by if b.reason == "quarantine"]
    assert "lost leases and crashes" in why.detail
    assert [j.job_id for j in mill.claim(2, queues=["q"])] == good[:1]
    assert {mill.state(j) for j in ids} == {"quarantined"}
    assert [j.job_id for j in mill.claim(10, queues=["default"])] == good[1:]
    assert {mill.state(j) for j in gated} == {"quarantined"}
    assert mill.misplaced() == []


def unswept(mill: Mill, job_id: str) -> str:
    """A quarantine that nobody has begun to sweep; its fingerprint."""
    mill.conn.execute(
        "insert into tidemill.quarantine (project_id, fingerprint, job_type, losses, is_quarantined, quarantined_at)"
        " select project_id, tidemill.fingerprint(job_type, payload), job_type, 3, true, now() from tidemill.jobs where id = %s",
        [job_id],
    )
    return fingerprint(mill, job_id)


def test_release_puts_jobs_back_where_they_came_from_at_their_first_attempt(mill: Mill) -> None:
    lost = mill.new(**BOMB)
    parent = mill.new(job_type="parent")
    for _ in range(3):
        crash(mill)
    scheduled, held = mill.new(**BOMB | {"delay_ms": 60_000}), mill.new(**BOMB | {"hold": True})
    child = mill.new(**BOMB | {"depends_on": [parent]})
    key = fingerprint(mill, lost)
    assert end_quarantine(mill.store, mill.project_id, key, "release") == 4
    assert [mill.state(j) for j in (lost, scheduled, held, child)] == ["queued", "scheduled", "pending", "pending"]
    assert (mill.view(lost)["attempt_count"], mill.view(lost)["crash_count"], mill.view(lost)["fence"]) == (0, 0, 3)
    assert mill.count("quarantine") == 0
    assert mill.new(**BOMB) and take(mill, lost).attempt == 1
    mill.complete(mill.claim_job(parent))
    assert mill.state(child) == "queued"
    assert mill.misplaced() == []


def test_a_parent_that_ends_meanwhile_is_not_waited_for_after_the_release(mill: Mill) -> None:
    parents = [mill.new(job_type="parent", max_attempts=1) for _ in range(3)]
    children = [
        mill.new(**BOMB | {"depends_on": [p], "on_parent_failure": rule})
        for p, rule in zip(parents, ("run", "cancel", "hold"), strict=True)
    ]
    key = unswept(mill, children[0])
    passes(mill)
    assert {mill.state(c) for c in children} == {"quarantined"}
    mill.complete(mill.claim_job(parents[0]))
    mill.die(parents[1])
    mill.die(parents[2])
    assert [mill.state(c) for c in children] == ["quarantined", "cancelled", "quarantined"]
    end_quarantine(mill.store, mill.project_id, key, "release")
    assert [mill.state(c) for c in children] == ["queued", "cancelled", "pending"]
    assert mill.misplaced() == []


def test_discard_cancels_what_is_set_aside_and_goes_on_setting_aside(mill: Mill) -> None:
    lost = mill.new(**BOMB)
    for _ in range(3):
        crash(mill)
    twins = [mill.new(**BOMB) for _ in range(20)]
    key = fingerprint(mill, lost)
    end_quarantine(mill.store, mill.project_id, key, "discard")
    passes(mill)
    assert {mill.state(j) for j in (lost, *twins)} == {"cancelled"}
    assert mill.view(lost)["final_reason"] == "discarded"
    later = mill.new(**BOMB)
    assert mill.state(later) == "quarantined"
    passes(mill)
    assert mill.state(later) == "quarantined"
    end_quarantine(mill.store, mill.project_id, key, "release")
    assert mill.state(later) == "queued"


def test_large_release_goes_on_in_steps_and_may_be_taken_back_by_new_losses(mill: Mill) -> None:
    lost = mill.new(**BOMB)
    for _ in range(3):
        crash(mill)
    for _ in range(4):
        mill.enqueue_all([BOMB] * 500)
    key = fingerprint(mill, lost)
    assert end_quarantine(mill.store, mill.project_id, key, "release") == 1000
    assert mill.store.quarantines(mill.project_id)[0]["verb"] == "release"
    assert end_quarantine(mill.store, mill.project_id, key, "release") == 1000, "asking again goes on"
    assert mill.state(mill.new(**BOMB)) == "queued"
    for _ in range(3):
        crash(mill)
    assert passes(mill, 500).get("released", 0) == 0
    states = mill.conn.execute("select status::text, count(*) from tidemill.job_states group by 1").fetchall()
    assert states == [("quarantined", 2002)]
    end_quarantine(mill.store, mill.project_id, key, "release")
    assert mill.store.quarantines(mill.project_id) != []
    while sweep(mill.store)["more"]:
        pass
    assert mill.count("quarantine") == 0
    assert mill.misplaced() == []


def test_an_unknown_fingerprint_is_not_found_and_a_merely_counted_one_too(mill: Mill) -> None:
    mill.new(**BOMB)
    job_id = crash(mill)
    for key in ("00" * 32, fingerprint(mill, job_id)):
        with pytest.raises(NotFound):
            end_quarantine(mill.store, mill.project_id, key, "release")
    other = mill.project_id.replace(mill.project_id[:8], "00000000")
    with pytest.raises(NotFound):
        end_quarantine(mill.store, other, fingerprint(mill, job_id), "release")


@pytest.mark.parametrize("window", ["pending", "running", "ttl"])
def test_quarantine_frees_unique_keys_as_documented_and_release_takes_them_again(mill: Mill, window: str) -> None:
    unique = {"unique": {"window": window, **({"ttl_ms": 600_000} if window == "ttl" else {})}}
    keyed = BOMB | unique
    first = mill.new(**keyed)
    for _ in range(3):
        crash(mill)
    assert mill.holder() == ([first] if window == "ttl" else [])
    again = mill.put(**keyed)
    if window == "ttl":
        assert (again.job_id, again.deduplicated) == (first, True)
        return
    assert (again.state, again.deduplicated) == ("quarantined", False)
    assert mill.holder() == []
    end_quarantine(mill.store, mill.project_id, fingerprint(mill, first), "release")
    assert [mill.state(first), mill.state(str(again.job_id))] == ["queued", "cancelled"]
    assert mill.view(str(again.job_id))["final_reason"] == "unique_conflict"
    assert mill.holder() == [first]


def test_quarantined_member_keeps_its_batch_open_and_fails_its_children_once(mill: Mill) -> None:
    from tidemill.engine import batch as batches

    batch_id = "00000000-0000-7000-8000-00000000000b"
    batches.create(mill.store, mill.project_id, batch_id, name="b", callbacks={}, jobs=[BOMB, BOMB | {"payload": 2}], sealed=True)
    bomb, good = (row[0] for row in mill.conn.execute("select id::text from tidemill.jobs order by id"))
    child = mill.new(depends_on=[bomb])
    unswept(mill, bomb)
    assert mill.claim_one(queues=["q"]).job_id == good
    mill.complete(mill.store.leases_of(mill.project_id, mill.worker_id, 1)[0])
    from tidemill.engine.dependants import sweep as settle_left_behind

    settle_left_behind(mill.store)
    assert mill.state(child) == "cancelled"
    batch = mill.store.batch(mill.project_id, batch_id)
    assert batch is not None and (batch.status, batch.completed, batch.cancelled) == ("sealed", 1, 0)
    end_quarantine(mill.store, mill.project_id, fingerprint(mill, bomb), "discard")
    passes(mill)
    batch = mill.store.batch(mill.project_id, batch_id)
    assert batch is not None and (batch.status, batch.cancelled) == ("completed_with_failures", 1)


def test_quarantined_job_may_be_cancelled_and_edited_by_itself(mill: Mill) -> None:
    job_id = mill.new(**BOMB)
    for _ in range(3):
        crash(mill)
    key = mill.view(job_id)["fingerprint"]
    edit(mill.store, mill.project_id, job_id, Edit(payload='{"n": 3}'))
    assert mill.view(job_id)["fingerprint"] == key, "it is released with the others"
    assert cancel(mill.store, mill.project_id, job_id, roll=mill.roll) is State.CANCELLED


def test_a_dead_job_that_is_retried_into_a_quarantine_does_not_run(mill: Mill) -> None:
    job_id = mill.new(**BOMB)
    mill.fail(take(mill, job_id), retryable=False)
    unswept(mill, job_id)
    passes(mill)
    retry(mill.store, mill.project_id, job_id)
    assert "quarantine" in [b.reason for b in explain(mill.store, mill.project_id, job_id).blocked_by]
    assert mill.claim(5, queues=["q"]) == []
    assert mill.state(job_id) == "quarantined"


def test_explain_names_the_quarantine_between_queue_concurrency_and_limits(mill: Mill) -> None:
    mill.queue("small", max_concurrency=0, quarantine_after=3)
    job_id = mill.new(**BOMB | {"queue": "small", "concurrency": {"limit": 1, "key": "k"}})
    other = mill.new(job_type="bomb", payload={"n": 9}, concurrency={"limit": 1, "key": "k"})
    mill.claim_job(other)
    unswept(mill, job_id)
    found = [b.reason for b in explain(mill.store, mill.project_id, job_id).blocked_by]
    assert found[:3] == ["queue_concurrency", "quarantine", "concurrency_key"]
    passes(mill)
    assert [b.reason for b in explain(mill.store, mill.project_id, job_id).blocked_by] == ["quarantine"]
