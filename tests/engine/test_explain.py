"""Explain says why a job does not run, from what the claim reads: no reason means that the next claim takes it."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.mill import Mill, uuid7
from tidemill.domain.errors import NotFound
from tidemill.domain.explanation import Explanation
from tidemill.engine.explain import explain

SETUPS = 60


def why(mill: Mill, job_id: str) -> Explanation:
    return explain(mill.store, mill.project_id, job_id)


def reasons(mill: Mill, job_id: str) -> list[str]:
    return [b.reason for b in why(mill, job_id).blocked_by]


def register(mill: Mill, name: str, worker_id: str, *queues: str, seen: str = "now()") -> None:
    mill.conn.execute(
        f"insert into tidemill.workers (id, project_id, name, max_concurrency, lease_ms, subscribed_queues, last_seen_at)"
        f" select %s, %s, %s, 1, 30000, array(select id from tidemill.queues where name = any(%s)), {seen}".encode(),
        [worker_id, mill.project_id, name, list(queues or ("default",))],
    )


def alive(mill: Mill, *queues: str) -> None:
    register(mill, "me", mill.worker_id, *queues)


def test_ready_job_has_no_reason_and_a_position(mill: Mill) -> None:
    alive(mill)
    first, second = mill.new(), mill.new()
    assert why(mill, first) == Explanation("queued", True, [], 0, None)
    assert why(mill, second).position == 1


def test_each_reason_names_its_cause_and_goes_with_it(mill: Mill) -> None:
    mill.queue("small", max_concurrency=1)
    alive(mill, "default", "small")
    parent = mill.new()
    child = mill.new(depends_on=[parent])
    assert reasons(mill, child) == ["dependencies"]
    held = mill.new(hold=True)
    assert reasons(mill, held) == ["held"]
    later = mill.new(delay_ms=60_000)
    [schedule] = why(mill, later).blocked_by
    assert schedule.reason == "schedule"
    assert why(mill, later).estimated_start_at == schedule.clears_at
    running = mill.claim_job(parent)
    assert reasons(mill, parent) == ["leased"]
    mill.complete(running)
    assert reasons(mill, parent) == ["final"]
    assert reasons(mill, child) == []

    in_small = mill.new(queue="small")
    waits = mill.new(queue="small")
    place = mill.claim_job(in_small, queues=("small",))
    assert reasons(mill, waits) == ["queue_concurrency"]
    mill.complete(place)
    assert reasons(mill, waits) == []


def test_full_key_names_the_jobs_that_hold_it(mill: Mill) -> None:
    alive(mill)
    holder, waits = (mill.new(concurrency={"limit": 1, "key": "K"}) for _ in range(2))
    running = mill.claim_job(holder)
    [blocked] = why(mill, waits).blocked_by
    assert blocked.reason == "concurrency_key"
    assert holder in blocked.detail
    mill.complete(running)
    assert reasons(mill, waits) == []


def test_empty_rate_class_says_when_it_has_tokens_again(mill: Mill) -> None:
    alive(mill)
    mill.conn.execute(
        'insert into tidemill.rate_classes (project_id, name, "limit", window_ms, burst, tokens) values (%s, %s, 1, 60000, 1, 0)',
        [mill.project_id, "mail"],
    )
    [blocked] = why(mill, mill.new(rate_class="mail")).blocked_by
    assert blocked.reason == "rate_class"
    assert blocked.clears_at is not None
    assert timedelta() < blocked.clears_at - datetime.now(UTC) <= timedelta(seconds=61)


def test_paused_queue_and_absent_workers_are_both_told(mill: Mill) -> None:
    register(mill, "gone", uuid7(), seen="now() - interval '1 hour'")
    job = mill.new()
    mill.conn.execute("update tidemill.queues set is_paused = true")
    assert reasons(mill, job) == ["queue_paused", "no_live_worker"]
    mill.conn.execute("set time zone 'Asia/Kolkata'")
    absent = why(mill, job).blocked_by[-1]
    assert absent.since is not None
    assert absent.detail.endswith(f"seen at {absent.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"), "whatever the session's zone is"


def test_job_of_another_project_is_not_found(mill: Mill) -> None:
    with pytest.raises(NotFound):
        why(mill, uuid7())


@pytest.mark.parametrize("seed", range(SETUPS))
def test_no_reason_means_that_the_next_claim_takes_it(mill: Mill, seed: int) -> None:
    """One waiting job, whatever runs already, in a random configuration."""
    chance = random.Random(seed)

    def maybe(p: float) -> bool:
        return chance.random() < p

    mill.queue("q", is_paused=maybe(0.1), max_concurrency=chance.choice([None, None, 1, 3]))
    if maybe(0.9):
        alive(mill, "q")
    other = mill.another()
    if maybe(0.4):
        register(mill, "other", other.worker_id, "q", seen=chance.choice(["now()", "now() - interval '1 hour'"]))
    mill.conn.execute(
        'insert into tidemill.rate_classes (project_id, name, "limit", window_ms, burst, tokens, is_paused)'
        " values (%s, %s, 1, 600000, 3, %s, %s)",
        [mill.project_id, "r", chance.choice([0, 1, 2, 3]), maybe(0.2)],
    )
    if maybe(0.2):
        mill.conn.execute(
            "insert into tidemill.concurrency_limits (project_id, name, job_type, max_concurrent) values (%s, 'l', 't', %s)",
            [mill.project_id, chance.choice([1, 2, 5])],
        )

    def gates() -> dict[str, Any]:
        spec: dict[str, Any] = {"queue": "q"}
        if maybe(0.5):
            spec["concurrency"] = {"limit": chance.choice([1, 2]), "key": chance.choice(["a", "b"])}
        if maybe(0.3):
            spec |= {"rate_class": "r", "weight": chance.choice([1, 2])}
        if maybe(0.3):
            spec["partition_key"] = chance.choice(["p", "q"])
        if maybe(0.2):
            spec["sticky_worker"] = chance.choice(["me", "other", "nobody"])
        return spec

    mill.conn.execute("update tidemill.queues set is_paused = false where name = 'default'")
    for _ in range(chance.randrange(4)):
        mill.new(**gates())
    mill.claim(10, queues=("q",))
    mill.conn.execute("delete from tidemill.job_queue_entries")  # what did not get through is out of the way
    if maybe(0.5):
        mill.conn.execute("select pg_sleep(0.006)")  # past the short look of a lane that was busy
    job = mill.new(**gates(), **({"delay_ms": 60_000} if maybe(0.1) else {}))
    found = why(mill, job)
    taken = [j.job_id for worker in (mill, other) for j in worker.claim(10, queues=("q",))]  # whoever may take it
    if "no_live_worker" in [b.reason for b in found.blocked_by]:
        return  # nobody who may take it is alive: the claim of a worker that never registered proves nothing
    assert (found.blocked_by == []) == (taken == [job]), (found, taken)
