"""Children wait for parents: what each way a parent ends means, in the parent's own transaction (cases B053, B055)."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import psycopg
import pytest

from harness.mill import Mill, ack_of, found_project
from tidemill.domain.errors import Invalid
from tidemill.domain.transitions import Event, State
from tidemill.engine.dependants import sweep
from tidemill.engine.family import CHILDREN, End, after_end
from tidemill.engine.operate import cancel, delete, promote, retry

WAITING_IN_VAIN = """
select j.id::text from tidemill.jobs j
where j.phase = 'waiting' and not j.is_held and not exists (
    select 1 from tidemill.job_dependencies d join tidemill.job_states p on p.id = d.depends_on_job_id
    where d.job_id = j.id and p.status not in ('completed', 'cancelled', 'dead_letter', 'quarantined'))
"""
ENQUEUE_CHILD = """
select * from tidemill.enqueue(%s, jsonb_build_array(jsonb_build_object('job_type', 't', 'depends_on', jsonb_build_array(%s::text))))
"""


def in_vain(mill: Mill) -> list[str]:
    """Children that wait although all their parents have ended. Always empty."""
    return [row[0] for row in mill.conn.execute(WAITING_IN_VAIN)]


def edges(mill: Mill) -> list[tuple[str, str, bool]]:
    statement = "select job_id::text, depends_on_job_id::text, settled_at is not null from tidemill.job_dependencies order by 1, 2"
    return [(row[0], row[1], row[2]) for row in mill.conn.execute(statement)]


def complete(mill: Mill, job_id: str) -> None:
    assert mill.complete(mill.claim_job(job_id)).state == "completed"


def dead(mill: Mill, job_id: str) -> None:
    mill.die(job_id)


def cancelled(mill: Mill, job_id: str) -> None:
    cancel(mill.store, mill.project_id, job_id, roll=mill.roll)


def force_cancelled(mill: Mill, job_id: str) -> None:
    mill.claim_job(job_id)
    cancel(mill.store, mill.project_id, job_id, force=True, roll=mill.roll)


def asked_to_stop(mill: Mill, job_id: str) -> None:
    job = mill.claim_job(job_id)
    cancel(mill.store, mill.project_id, job_id, roll=mill.roll)
    assert mill.ack(job, Event.ACK_CANCELLED).state == "cancelled"


def deleted(mill: Mill, job_id: str) -> None:
    delete(mill.store, mill.project_id, job_id)


def reaped_to_death(mill: Mill, job_id: str) -> None:
    mill.conn.execute("update tidemill.jobs set max_attempts_override = 1 where id = %s", [job_id])
    mill.claim_job(job_id)
    mill.lapse(job_id)
    assert mill.reap().dead == 1


def reaped_when_asked_to_stop(mill: Mill, job_id: str) -> None:
    mill.claim_job(job_id)
    cancel(mill.store, mill.project_id, job_id, roll=mill.roll)
    mill.lapse(job_id)
    assert mill.reap().cancelled == 1


FAILING: list[Callable[[Mill, str], None]] = [
    dead,
    cancelled,
    force_cancelled,
    asked_to_stop,
    deleted,
    reaped_to_death,
    reaped_when_asked_to_stop,
]
failing = pytest.mark.parametrize("end", FAILING, ids=lambda end: end.__name__)


def test_child_goes_when_its_last_parent_completes(mill: Mill) -> None:
    first, second = mill.new(), mill.new()
    child = mill.new(depends_on=[first, second])
    assert mill.state(child) == "pending"
    complete(mill, first)
    assert mill.state(child) == "pending"
    assert mill.view(child)["pending_parents"] == 1
    complete(mill, second)
    assert mill.state(child) == "queued"
    complete(mill, child)
    assert mill.misplaced() == []


def test_child_with_a_time_ahead_waits_for_it_after_its_parents(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(depends_on=[parent], delay_ms=3_600_000)
    complete(mill, parent)
    assert mill.state(child) == "scheduled"
    assert mill.misplaced() == []


def test_a_held_child_stays_held_after_its_parents(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(depends_on=[parent], hold=True)
    complete(mill, parent)
    assert mill.state(child) == "pending"
    assert promote(mill.store, mill.project_id, child) == "queued"


def test_a_promoted_child_does_not_wait_and_its_parents_end_changes_nothing(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(depends_on=[parent], priority=9)
    promote(mill.store, mill.project_id, child)
    job = mill.claim_job(child)
    dead(mill, parent)
    assert mill.state(child) == "running"
    assert mill.complete(job).state == "completed"


@failing
def test_b053_a_parents_failure_cancels_the_child_with_the_reason(mill: Mill, end: Callable[[Mill, str], None]) -> None:
    failed, other = mill.new(priority=1), mill.new()
    child = mill.new(depends_on=[failed, other])
    end(mill, failed)
    assert mill.state(child) == "cancelled"
    stored = mill.stored(child)["jobs"][0]
    assert stored["final_reason"] == "parent_failed"
    assert stored["finalized_at"] is not None
    assert stored["retention_until"] is not None
    assert stored["attempt_count"] == 0
    complete(mill, other)
    assert mill.state(child) == "cancelled"
    assert (in_vain(mill), mill.misplaced()) == ([], [])


@failing
def test_b053_a_child_that_runs_anyway_runs_after_its_last_parent(mill: Mill, end: Callable[[Mill, str], None]) -> None:
    failed, other = mill.new(priority=1), mill.new()
    child = mill.new(depends_on=[failed, other], on_parent_failure="run")
    end(mill, failed)
    assert mill.state(child) == "pending"
    complete(mill, other)
    complete(mill, child)
    assert (in_vain(mill), mill.misplaced()) == ([], [])


@failing
def test_b053_a_child_that_is_held_waits_for_an_operator(mill: Mill, end: Callable[[Mill, str], None]) -> None:
    failed, other = mill.new(priority=1), mill.new()
    child = mill.new(depends_on=[failed, other], on_parent_failure="hold")
    end(mill, failed)
    complete(mill, other)
    assert (mill.state(child), mill.view(child)["is_held"]) == ("pending", True)
    assert promote(mill.store, mill.project_id, child) == "queued"
    complete(mill, child)
    assert mill.misplaced() == []


def test_b053_a_quarantined_parent_has_failed(mill: Mill) -> None:
    """Quarantine by lost leases comes through the reaper, in a later issue; the engine's verb is the same."""
    parent = mill.new()
    child = mill.new(depends_on=[parent])
    job = mill.claim_job(parent)
    mill.conn.execute("delete from tidemill.job_leases where job_id = %s", [job.job_id])
    mill.conn.execute("update tidemill.jobs set phase = 'quarantined' where id = %s", [parent])
    with mill.store.transaction():
        after_end(mill.store, [End(parent, State.QUARANTINED, CHILDREN)])
    assert mill.state(child) == "cancelled"
    assert mill.state(mill.new(depends_on=[parent])) == "cancelled"


def test_b053_the_parents_retry_revives_nobody(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(depends_on=[parent])
    dead(mill, parent)
    retry(mill.store, mill.project_id, parent)
    later = mill.new(depends_on=[parent])
    assert mill.state(later) == "pending"
    complete(mill, parent)
    assert (mill.state(child), mill.state(later)) == ("cancelled", "queued")


def test_b053_failure_runs_down_a_chain_of_five(mill: Mill) -> None:
    made = mill.enqueue_all([{"ref": "0"}, *({"ref": str(n), "depends_on": [{"ref": str(n - 1)}]} for n in range(1, 5))])
    ids = [str(r.job_id) for r in made]
    assert [r.state for r in made] == ["queued", *["pending"] * 4]
    dead(mill, ids[0])
    assert [mill.state(i) for i in ids] == ["dead_letter", *["cancelled"] * 4]
    assert in_vain(mill) == []
    assert all(settled for _, _, settled in edges(mill))


def test_b053_a_chain_of_five_runs_in_order(mill: Mill) -> None:
    made = mill.enqueue_all([{"ref": str(n), "depends_on": [{"ref": str(n - 1)}] if n else []} for n in range(5)])
    for result in made:
        complete(mill, str(result.job_id))
    assert mill.claim() == []


def test_b053_a_diamonds_tip_runs_once_after_both_sides(mill: Mill) -> None:
    top, left, right, tip = (
        str(r.job_id)
        for r in mill.enqueue_all(
            [
                {"ref": "top"},
                {"ref": "left", "depends_on": [{"ref": "top"}]},
                {"ref": "right", "depends_on": [{"ref": "top"}]},
                {"depends_on": [{"ref": "left"}, {"ref": "right"}]},
            ]
        )
    )
    complete(mill, top)
    sides = mill.claim(10)
    assert {job.job_id for job in sides} == {left, right}
    assert [mill.complete(job).state for job in sides] == ["completed"] * 2
    complete(mill, tip)
    assert mill.misplaced() == []


def test_b053_a_diamonds_tip_is_cancelled_once_when_its_top_fails(mill: Mill) -> None:
    ids = [
        str(r.job_id)
        for r in mill.enqueue_all(
            [
                {"ref": "top"},
                {"ref": "left", "depends_on": [{"ref": "top"}]},
                {"ref": "right", "depends_on": [{"ref": "top"}], "on_parent_failure": "run"},
                {"depends_on": [{"ref": "left"}, {"ref": "right"}]},
            ]
        )
    ]
    dead(mill, ids[0])
    assert [mill.state(i) for i in ids] == ["dead_letter", "cancelled", "queued", "cancelled"]
    complete(mill, ids[2])
    assert mill.misplaced() == []


def test_b053_a_child_cancelled_first_stays_cancelled(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(depends_on=[parent], on_parent_failure="run")
    grandchild = mill.new(depends_on=[child])
    cancel(mill.store, mill.project_id, child, roll=mill.roll)
    assert mill.stored(child)["jobs"][0]["final_reason"] == "cancelled"
    assert mill.stored(grandchild)["jobs"][0]["final_reason"] == "parent_failed"
    complete(mill, parent)
    assert (mill.state(child), mill.state(grandchild)) == ("cancelled", "cancelled")


def test_a_child_deleted_while_it_waits_leaves_its_parent_alone(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(depends_on=[parent])
    delete(mill.store, mill.project_id, child)
    assert edges(mill) == []
    complete(mill, parent)


def test_a_child_cancelled_for_its_parent_frees_its_unique_key(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(job_type="c", depends_on=[parent], unique={"by": []})
    assert mill.put(job_type="c", unique={"by": []}).job_id == child
    dead(mill, parent)
    again = mill.put(job_type="c", unique={"by": []})
    assert (again.deduplicated, again.job_id != child) == (False, True)


def test_a_retried_parent_that_waits_out_its_backoff_still_holds_its_child(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(depends_on=[parent])
    assert mill.fail(mill.claim_job(parent)).state == "scheduled"
    assert mill.state(child) == "pending"
    mill.make_due(parent)
    complete(mill, parent)
    assert mill.state(child) == "queued"


def test_a_parent_marked_after_it_was_moved_still_tells_its_child(mill: Mill) -> None:
    parent = mill.new(delay_ms=3_600_000)
    child = mill.new(depends_on=[parent])
    assert promote(mill.store, mill.project_id, parent) == "queued"
    complete(mill, parent)
    assert mill.state(child) == "queued"


@pytest.mark.parametrize(
    ("end", "rule", "state"),
    [
        (complete, "cancel", "queued"),
        (dead, "cancel", "cancelled"),
        (dead, "run", "queued"),
        (dead, "hold", "pending"),
        (cancelled, "cancel", "cancelled"),
    ],
)
def test_b055_child_of_a_parent_that_has_ended(mill: Mill, end: Callable[[Mill, str], None], rule: str, state: str) -> None:
    parent = mill.new()
    end(mill, parent)
    made = mill.put(depends_on=[parent], on_parent_failure=rule)
    assert made.state == state
    assert mill.state(str(made.job_id)) == state
    assert [settled for _, _, settled in edges(mill)] == [True]
    assert mill.misplaced() == []


def test_b055_pruned_unknown_and_foreign_parents_are_refused(mill: Mill) -> None:
    pruned = mill.new()
    complete(mill, pruned)
    mill.store.prune([pruned], now=None)
    elsewhere = Mill(mill.dsn, mill.conn, found_project(mill.conn, "elsewhere")).new()
    for parent in (pruned, str(uuid.uuid4()), elsewhere):
        with pytest.raises(Invalid) as refused:
            mill.new(depends_on=[parent])
        assert refused.value.faults[0].loc == ("jobs", 0, "depends_on")
        assert parent in refused.value.faults[0].msg
    assert mill.conn.execute("select has_children from tidemill.jobs where id = %s", [elsewhere]).fetchone() == (False,)


def test_b055_a_job_cannot_wait_for_itself_nor_in_a_circle(mill: Mill) -> None:
    with pytest.raises(Invalid, match="circle"):
        mill.enqueue_all([{"ref": "a", "depends_on": [{"ref": "a"}]}])
    with pytest.raises(Invalid) as refused:
        mill.enqueue_all([{"ref": "a", "depends_on": [{"ref": "b"}]}, {"ref": "b", "depends_on": [{"ref": "a"}]}, {}])
    assert [fault.loc for fault in refused.value.faults] == [("jobs", 0, "depends_on"), ("jobs", 1, "depends_on")]
    assert mill.count("jobs") == 0


def test_b055_a_parent_named_twice_counts_once(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(depends_on=[parent, parent.upper(), parent])
    assert mill.view(child)["pending_parents"] == 1
    complete(mill, parent)
    assert mill.state(child) == "queued"


def test_b055_two_refs_that_stand_for_one_job_count_once(mill: Mill) -> None:
    """They used to count twice, with one edge to settle: the child waited for ever."""
    known = mill.new(job_type="k", unique={"by": []})
    made = mill.enqueue_all(
        [
            {"job_type": "k", "unique": {"by": []}, "ref": "known"},
            {"job_type": "u", "unique": {"by": []}, "ref": "u1"},
            {"job_type": "u", "unique": {"by": []}, "ref": "u2"},
            {"depends_on": [{"ref": "known"}, known, {"ref": "u1"}, {"ref": "u2"}]},
        ]
    )
    child = str(made[3].job_id)
    assert made[0].job_id == known
    assert mill.view(child)["pending_parents"] == 2
    complete(mill, known)
    complete(mill, str(made[1].job_id))
    assert mill.state(child) == "queued"


def test_b055_the_fan_in_is_capped(mill: Mill) -> None:
    parents = [str(r.job_id) for r in mill.enqueue_all([{}] * 1_000)]
    with pytest.raises(Invalid, match="1001 parents; the limit is 1000"):
        mill.new(depends_on=[*parents, str(uuid.uuid4())])
    with pytest.raises(Invalid, match="10000 parents; the limit is 1000"):
        mill.new(depends_on=[str(uuid.uuid4()) for _ in range(10_000)])
    with pytest.raises(Invalid, match="11000 parents in one call; the limit is 10000"):
        mill.enqueue_all([{"depends_on": parents}] * 11)
    assert mill.view(mill.new(depends_on=parents))["pending_parents"] == 1_000


def test_b055_ten_thousand_edges_in_one_call(mill: Mill) -> None:
    parents = [str(r.job_id) for r in mill.enqueue_all([{}] * 1_000)]
    made = mill.enqueue_all([{"depends_on": parents}] * 10)
    assert [r.state for r in made] == ["pending"] * 10
    while jobs := mill.claim(500):
        for job in jobs:
            assert job.job_id in parents or [mill.state(str(r.job_id)) for r in made].count("pending") == 0
        mill.settle([ack_of(job, Event.COMPLETE) for job in jobs])
    assert [mill.state(str(r.job_id)) for r in made] == ["completed"] * 10


def test_refs_that_two_jobs_share_are_refused(mill: Mill) -> None:
    with pytest.raises(Invalid) as refused:
        mill.enqueue_all([{"ref": "a"}, {"ref": "a"}, {"depends_on": [{"ref": "a"}]}])
    assert refused.value.faults[0].loc == ("jobs", 1, "ref")
    with pytest.raises(Invalid, match="no job of this call has the ref 'b'"):
        mill.enqueue_all([{"ref": "a"}, {"depends_on": [{"ref": "b"}]}])


def test_refused_jobs_of_a_bulk_call_leave_no_keys_marks_or_waiting_children(mill: Mill) -> None:
    """A child of a refused job used to be created, and waited for a parent that never was."""
    parent, other = mill.new(), mill.new(priority=1)
    complete(mill, other)
    before = [mill.stored(parent), mill.stored(other)]
    made = mill.enqueue_all(
        [
            {"queue": "nowhere", "ref": "lost"},
            {"depends_on": [{"ref": "lost"}], "ref": "child", "idempotency_key": "k1", "unique": {}},
            {"depends_on": [{"ref": "child"}], "idempotency_key": "k2"},
            {"depends_on": [parent, str(uuid.uuid4())], "idempotency_key": "k3", "ref": "stranger"},
            {"depends_on": [{"ref": "stranger"}, parent, other]},
            {"queue": "nowhere", "depends_on": [parent]},
            {"depends_on": [{"ref": "loop"}, parent], "ref": "loop"},
            {"ref": "fine"},
        ],
        atomic=False,
    )
    assert [r.code for r in made] == ["validation_error"] * 7 + [None]
    assert [r.field for r in made[:7]] == ["queue", "depends_on", "depends_on", "depends_on", "depends_on", "queue", "depends_on"]
    assert "its parent 'lost' is refused" in str(made[1].message)
    assert "its parent 'child' is refused" in str(made[2].message)
    assert "its parent 'stranger' is refused" in str(made[4].message)
    assert mill.count("unique_holds") == 0
    assert [mill.stored(parent), mill.stored(other)] == before
    assert edges(mill) == []
    assert mill.count("jobs") == 3


def test_a_child_of_a_key_that_another_request_holds_is_refused_with_it(mill: Mill) -> None:
    mill.new(idempotency_key="k")
    made = mill.enqueue_all([{"idempotency_key": "k", "priority": 1, "ref": "a"}, {"depends_on": [{"ref": "a"}]}], atomic=False)
    assert [r.code for r in made] == ["idempotency_conflict", "validation_error"]
    assert mill.count("jobs") == 1


def test_the_same_request_answers_though_its_parent_is_gone(mill: Mill) -> None:
    """A repeat used to be refused for a parent that was pruned after the first one had been answered."""
    parent = mill.new()
    child = mill.new(depends_on=[parent], idempotency_key="k", on_parent_failure="run")
    delete(mill.store, mill.project_id, parent)
    again = mill.put(depends_on=[parent], idempotency_key="k", on_parent_failure="run")
    assert (again.job_id, again.deduplicated) == (child, True)


def test_a_child_waits_for_the_job_that_answers_for_its_refs_key(mill: Mill) -> None:
    known = mill.new(job_type="k", unique={"by": []})
    made = mill.enqueue_all([{"job_type": "k", "unique": {"by": []}, "ref": "a"}, {"depends_on": [{"ref": "a"}]}])
    assert (made[0].deduplicated, made[1].state) == (True, "pending")
    complete(mill, known)
    assert mill.state(str(made[1].job_id)) == "queued"


def test_failed_parents_reach_the_children_of_the_same_call(mill: Mill) -> None:
    parent = mill.new()
    dead(mill, parent)
    made = mill.enqueue_all(
        [
            {"depends_on": [{"ref": "b"}], "ref": "c"},
            {"depends_on": [parent], "ref": "b"},
            {"depends_on": [{"ref": "c"}], "on_parent_failure": "run"},
            {"depends_on": [{"ref": "c"}], "on_parent_failure": "hold", "ref": "h"},
            {"depends_on": [{"ref": "h"}]},
        ]
    )
    assert [r.state for r in made] == ["cancelled", "cancelled", "queued", "pending", "pending"]
    held = str(made[3].job_id)
    promote(mill.store, mill.project_id, held)
    for _ in range(2):
        mill.complete(mill.claim_one())
    assert mill.state(str(made[4].job_id)) == "queued"
    assert (in_vain(mill), mill.misplaced()) == ([], [])


def test_a_child_can_be_enqueued_in_an_applications_transaction_and_vanish_with_it(mill: Mill) -> None:
    parent = mill.new()
    with psycopg.connect(mill.dsn) as conn:
        conn.execute(ENQUEUE_CHILD, [mill.project_id, parent])
        conn.rollback()
    complete(mill, parent)
    assert mill.count("jobs") == 1


def test_a_repeatable_read_transaction_never_leaves_a_child_of_a_parent_that_ended_under_it(mill: Mill) -> None:
    parent = mill.new()
    with psycopg.connect(mill.dsn) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("select 1")
        complete(mill, parent)
        with pytest.raises(psycopg.errors.SerializationFailure):
            conn.execute(ENQUEUE_CHILD, [mill.project_id, parent])
    assert in_vain(mill) == []


def test_the_sweep_finds_edges_left_behind_however_many_are_rightly_open(mill: Mill) -> None:
    """It used to start at a random id, of which one in two hundred lies among those in use: it looked at the first thousand only."""
    open_parents = [str(r.job_id) for r in mill.enqueue_all([{}] * 700)]
    mill.enqueue_all([{"depends_on": open_parents}] * 5)
    parents = [mill.new(priority=1) for _ in range(3)]
    children = [mill.new(depends_on=[p], on_parent_failure=rule) for p, rule in zip(parents, ("cancel", "hold", "run"), strict=True)]
    grandchild = mill.new(depends_on=[children[0]])
    # ends that told nobody
    mill.conn.execute("update tidemill.job_queue_entries set traits = 0 where job_id = any(%s::uuid[])", [parents])
    for parent in parents[:2]:
        dead(mill, parent)
    complete(mill, parents[2])
    assert [mill.state(c) for c in children] == ["pending"] * 3
    found = [sweep(mill.store)["parents"] for _ in range(5)]
    assert sum(found) == 3
    assert [mill.state(c) for c in (*children, grandchild)] == ["cancelled", "pending", "queued", "cancelled"]
    assert mill.view(children[1])["is_held"] is True
    assert [sweep(mill.store)["parents"] for _ in range(4)] == [0] * 4


def test_the_sweep_fails_a_parent_that_is_gone(mill: Mill) -> None:
    parent = mill.new()
    child = mill.new(depends_on=[parent])
    mill.conn.execute("delete from tidemill.job_queue_entries where job_id = %s", [parent])
    mill.conn.execute("delete from tidemill.jobs where id = %s", [parent])
    assert sweep(mill.store) == {"parents": 1}
    assert mill.state(child) == "cancelled"


def test_a_worker_that_sleeps_is_rung_for_a_child(mill: Mill) -> None:
    parent = mill.new()
    queue_id = mill.queue("later")
    mill.new(queue="later", depends_on=[parent])
    worker = "0" * 12 + "4" + "0" * 3 + "8" + "0" * 15
    mill.conn.execute("insert into tidemill.queue_sleepers (queue_id, worker_id) values (%s, %s)", [queue_id, worker])
    with psycopg.connect(mill.dsn, autocommit=True) as ear:
        ear.execute(f'listen "tidemill_{worker}"'.encode())
        complete(mill, parent)
        assert [note.channel for note in ear.notifies(timeout=10, stop_after=1)] == [f"tidemill_{worker}"]
    assert mill.count("queue_sleepers") == 0
