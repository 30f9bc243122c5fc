"""B039: in which states a unique key is held. The table here and the one in docs/jobs.md are the same one."""

import re
from pathlib import Path

import pytest

from harness.mill import FIXED, T0, Mill, S
from tidemill.domain.jobs import Lease, Move
from tidemill.domain.transitions import Event, ExecutionStatus, State, Transition
from tidemill.engine import claim as claims
from tidemill.engine.operate import cancel, delete, promote
from tidemill.engine.prune import prune

PAGE = Path(__file__).resolve().parents[2] / "docs" / "jobs.md"
WINDOWS = ("pending", "running", "ttl")
# state of the job that took the key: is the key held with window pending, running, ttl (before its time is over)?
TABLE = {
    "pending": (True, True, True),
    "scheduled": (True, True, True),
    "queued": (True, True, True),
    "claimed": (True, True, True),
    "running": (False, True, True),
    "retry wait": (False, True, True),
    "completed": (False, False, True),
    "dead_letter": (False, False, True),
    "cancelled": (False, False, True),
    "quarantined": (False, False, True),
    "deleted": (False, False, False),
}
TTL_MS = 3_600_000
LATER = T0 + 10 * S


def unique(window: str) -> dict[str, object]:
    return {"window": window, "ttl_ms": TTL_MS} if window == "ttl" else {"window": window}


def taken_to(mill: Mill, state: str, window: str) -> str:
    """A job with the key in that state."""
    spec = {"unique": unique(window), "retry_policy": FIXED, "payload": {"k": 1}}
    if state == "pending":
        return mill.new(T0, hold=True, **spec)
    if state == "scheduled":
        return mill.new(T0, delay_ms=60_000, **spec)
    job_id = mill.new(T0, **spec)
    if state == "queued":
        return job_id
    if state == "deleted":
        delete(mill.store, mill.project_id, job_id)
        return job_id
    if state == "cancelled":
        cancel(mill.store, mill.project_id, job_id, roll=mill.roll, now=T0)
        return job_id
    job = mill.claim_job(job_id, start=state != "claimed", now=T0)
    if state == "retry wait":
        mill.fail(job, now=T0)
    elif state == "completed":
        mill.complete(job, now=T0)
    elif state == "dead_letter":
        mill.fail(job, retryable=False, now=T0)
    elif state == "quarantined":
        step = Transition(State.QUARANTINED, ExecutionStatus.CRASHED, 1, 3, reason="crash")
        mill.store.settle([Move(Lease(job.job_id, job.lease_token), step)], now=T0)
    return job_id


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("state", TABLE)
def test_b039_the_key_is_held_exactly_in_the_published_states(mill: Mill, state: str, window: str) -> None:
    first = taken_to(mill, state, window)
    if state != "deleted":
        assert mill.state(first, now=LATER) == ("scheduled" if state == "retry wait" else state)
    held = TABLE[state][WINDOWS.index(window)]
    again = mill.put(LATER, unique=unique(window), payload={"k": 1})
    assert again.deduplicated is held
    assert (again.job_id == first) is held
    if not held:  # then exactly one follow-up may wait
        third = mill.put(LATER, unique=unique(window), payload={"k": 1})
        assert (third.deduplicated, third.job_id) == (True, again.job_id)
    assert mill.misplaced() == []


def test_b039_the_published_table_says_the_same() -> None:
    text = PAGE.read_text(encoding="utf-8").split("## When a unique key is free again", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| ([a-z_ ]+?) \| (held|free) \| (held|free) \| (held|free) \|$", text, re.MULTILINE)
    assert {row[0]: tuple(word == "held" for word in row[1:]) for row in rows} == TABLE


@pytest.mark.parametrize("window", WINDOWS)
def test_b039_other_types_payloads_and_projects_have_keys_of_their_own(mill: Mill, window: str) -> None:
    from harness.mill import found_project
    from tidemill.engine.enqueue import enqueue

    key = unique(window)
    ids = {mill.new(T0, unique=key, payload=p, job_type=t) for p in ({}, {"a": 1}, {"a": 1.0}, {"a": "1"}, [], None) for t in ("t", "u")}
    assert len(ids) == 12
    other = found_project(mill.conn, "other")
    (elsewhere,) = enqueue(mill.store, other, [{"job_type": "t", "unique": key}], now=T0)
    assert elsewhere.deduplicated is False


def test_b039_chosen_fields_alone_make_the_key_and_an_absent_one_counts_as_null(mill: Mill) -> None:
    by = {"by": ["a", "b"]}
    first = mill.new(T0, unique=by, payload={"a": 1, "b": None, "c": 1})
    assert mill.put(T0, unique=by, payload={"c": 2, "a": 1}).job_id == first
    assert mill.put(T0, unique={"by": ["b", "a"]}, payload={"a": 1}).job_id == first
    assert mill.put(T0, unique=by, payload={"a": 2}).job_id != first
    assert mill.put(T0, unique={}, payload={"a": 1, "b": None}).job_id == first  # the same canonical JSON


def test_b039_a_ttl_runs_from_creation_to_the_moment_and_the_next_job_takes_over(mill: Mill) -> None:
    key = {"window": "ttl", "ttl_ms": 1_000}
    first = mill.new(T0, unique=key)
    assert mill.put(T0 + 0.999 * S, unique=key).job_id == first
    second = mill.put(T0 + S, unique=key)
    assert second.deduplicated is False
    assert mill.put(T0 + 1.5 * S, unique=key).job_id == second.job_id
    mill.complete(mill.claim_job(first, now=T0 + S), now=T0 + S)
    assert mill.holder() == [second.job_id]
    delete(mill.store, mill.project_id, first)
    assert mill.holder() == [second.job_id]


def test_b039_a_pending_window_ends_at_the_start_not_at_the_claim(mill: Mill) -> None:
    key = {"window": "pending"}
    first = mill.new(T0, unique=key)
    job = mill.claim_job(first, start=False, now=T0)
    assert mill.put(T0, unique=key).job_id == first
    claims.start(mill.store, Lease(job.job_id, job.lease_token), now=T0)
    second = mill.put(T0, unique=key)
    assert second.deduplicated is False
    claims.start(mill.store, Lease(job.job_id, job.lease_token), now=T0)
    mill.complete(job, now=T0)
    assert mill.holder() == [second.job_id]


def test_b039_a_pending_window_stays_held_by_a_job_that_lost_its_lease_before_it_began(mill: Mill) -> None:
    key = {"window": "pending"}
    first = mill.new(T0, unique=key)
    mill.claim_job(first, start=False, now=T0)
    assert mill.reap(now=T0 + 31 * S).retried == 1
    assert mill.put(T0 + 31 * S, unique=key).job_id == first


@pytest.mark.parametrize("event", [Event.SNOOZE, Event.RELEASE, Event.FAIL])
def test_b039_going_back_to_wait_keeps_a_running_window_and_does_not_take_a_pending_one_back(mill: Mill, event: Event) -> None:
    running, pending = mill.new(T0, unique={}), mill.new(T0, unique={"window": "pending"}, payload=1)
    values = {"delay_ms": 1_000} if event is Event.SNOOZE else {}
    for job in mill.claim(2, now=T0):
        mill.ack(job, event, now=T0, **values)
    assert mill.put(T0, unique={}).job_id == running
    assert mill.put(T0, unique={"window": "pending"}, payload=1).job_id != pending


def test_b039_promoting_a_held_job_keeps_its_key(mill: Mill) -> None:
    first = mill.new(T0, hold=True, unique={})
    promote(mill.store, mill.project_id, first, now=T0)
    assert mill.put(T0, unique={}).job_id == first


@pytest.mark.parametrize("window", WINDOWS)
def test_b039_pruning_frees_what_is_left_of_a_key(mill: Mill, window: str) -> None:
    first = mill.new(T0, unique=unique(window), retention_ms=0)
    mill.complete(mill.claim_job(first, now=T0), now=T0)
    assert prune(mill.store, now=T0 + S)["jobs"] == (0 if window == "ttl" else 1)  # the job stays as long as its key
    at = T0 + TTL_MS / 1_000 * S
    assert prune(mill.store, now=at)["jobs"] == (1 if window == "ttl" else 0)
    assert mill.holder() == []
    assert mill.put(at, unique=unique(window)).deduplicated is False
