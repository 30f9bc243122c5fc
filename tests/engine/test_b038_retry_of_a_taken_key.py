"""B038: a dead job whose unique key somebody else holds by now cannot come back, and says who holds it."""

from typing import Any

import pytest

from harness.mill import T0, Mill, S
from tidemill.domain.errors import InvalidTransition, TidemillError, UniqueConflict
from tidemill.domain.jobs import Edit
from tidemill.domain.transitions import State
from tidemill.engine.operate import delete, edit, retry
from tidemill.store.operates import Operates


def dead(mill: Mill, **spec: Any) -> str:
    job_id = mill.new(T0, **spec)
    mill.fail(mill.claim_job(job_id, now=T0), retryable=False, now=T0)
    return job_id


@pytest.mark.parametrize("window", ["running", "pending"])
def test_b038_the_conflict_names_the_live_sibling_and_changes_nothing(mill: Mill, window: str) -> None:
    first = dead(mill, unique={"window": window})
    second = mill.new(T0 + S, unique={"window": window})
    before = mill.stored(first), mill.stored(second)
    with pytest.raises(UniqueConflict) as caught:
        retry(mill.store, mill.project_id, first, now=T0 + S)
    assert (caught.value.code, caught.value.holder_id) == ("unique_conflict", second)
    assert second in str(caught.value)
    assert (mill.stored(first), mill.stored(second)) == before


def test_b038_once_the_sibling_is_over_the_dead_one_comes_back_and_holds_its_key_again(mill: Mill) -> None:
    first = dead(mill, unique={})
    second = mill.new(T0 + S, unique={})
    mill.complete(mill.claim_job(second, now=T0 + S), now=T0 + S)
    assert retry(mill.store, mill.project_id, first, now=T0 + S) is State.QUEUED
    assert mill.put(T0 + S, unique={}).job_id == first


def test_b038_of_a_hundred_dead_ones_97_come_back_and_3_stay_as_they_were(mill: Mill) -> None:
    mill.enqueue_all([{"payload": i, "unique": {}} for i in range(100)], now=T0)
    ids = []
    for job in mill.claim(100, now=T0):
        mill.fail(job, retryable=False, now=T0)
        ids.append(job.job_id)
    siblings = {mill.new(T0, payload=i, unique={}) for i in (3, 50, 99)}
    before = {job_id: mill.stored(job_id) for job_id in ids}
    conflicts = {}
    for job_id in ids:
        try:
            assert retry(mill.store, mill.project_id, job_id, now=T0) is State.QUEUED
        except UniqueConflict as error:
            conflicts[job_id] = error.holder_id
    assert set(conflicts.values()) == siblings
    for job_id in conflicts:
        assert mill.stored(job_id) == before[job_id]
    rows = mill.conn.execute("select phase::text, count(*) from tidemill.jobs group by 1 order by 1").fetchall()
    assert sorted(rows) == [("dead_letter", 3), ("moving", 100)]
    assert mill.misplaced() == []


def test_b038_a_retry_that_finds_the_job_gone_leaves_no_key_behind(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    first = dead(mill, unique={})
    taken = Operates.take_hold
    other = mill.another()

    def retried_by_another(self: Operates, project_id: str, job_id: str, **how: Any) -> str | None:
        if self is mill.store:
            monkeypatch.setattr(Operates, "take_hold", taken)
            assert retry(other.store, project_id, job_id) is State.QUEUED
            other.complete(other.claim_job(job_id))
            other.conn.execute("update tidemill.jobs set phase = 'dead_letter', finalized_at = now() where id = %s", [job_id])
            holder = taken(self, project_id, job_id, **how)
            other.conn.execute("update tidemill.jobs set phase = 'moving', finalized_at = null where id = %s", [job_id])
            return holder
        return taken(self, project_id, job_id, **how)

    monkeypatch.setattr(Operates, "take_hold", retried_by_another)
    with pytest.raises(InvalidTransition):
        retry(mill.store, mill.project_id, first)
    assert mill.holder() == []


def test_b038_a_deleted_job_that_was_being_retried_leaves_no_key_behind(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    first = dead(mill, unique={})
    taken = Operates.take_hold
    other = mill.another()

    def then_deleted(self: Operates, project_id: str, job_id: str, **how: Any) -> str | None:
        holder = taken(self, project_id, job_id, **how)
        delete(other.store, project_id, job_id)
        return holder

    monkeypatch.setattr(Operates, "take_hold", then_deleted)
    with pytest.raises(TidemillError, match="no job"):
        retry(mill.store, mill.project_id, first)
    assert mill.holder() == []
    assert mill.put(unique={}).deduplicated is False


def test_b038_an_edited_payload_does_not_change_the_key_the_job_was_made_with(mill: Mill) -> None:
    first = dead(mill, payload={"a": 1}, unique={})
    edit(mill.store, mill.project_id, first, Edit(payload='{"a": 2}'), now=T0)
    second = mill.new(T0, payload={"a": 1}, unique={})
    with pytest.raises(UniqueConflict) as caught:
        retry(mill.store, mill.project_id, first, now=T0)
    assert caught.value.holder_id == second


def test_b038_an_expired_ttl_key_of_another_does_not_stand_in_the_way(mill: Mill) -> None:
    first = dead(mill, unique={})
    mill.new(T0, unique={"window": "ttl", "ttl_ms": 1_000})
    with pytest.raises(UniqueConflict):
        retry(mill.store, mill.project_id, first, now=T0 + 0.5 * S)
    assert retry(mill.store, mill.project_id, first, now=T0 + S) is State.QUEUED
    assert mill.holder() == [first]
