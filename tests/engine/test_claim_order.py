"""Which job comes next: queue priority, weights, job priority, run_at, id; and what is never handed out."""

import random
from collections import Counter

import pytest

from harness.mill import T0, H, Mill, S, lease_of
from tidemill.domain.jobs import ClaimRequest
from tidemill.engine.claim import claim


def test_priority_first_then_run_at_then_id(mill: Mill) -> None:
    rng = random.Random(7)
    specs = [{"priority": rng.choice([-32_768, -1, 0, 1, 32_767]), "run_at": (T0 + rng.randrange(5) * S).isoformat()} for _ in range(200)]
    made = mill.enqueue_all(specs, now=T0)
    expected = sorted(
        ((-spec["priority"], spec["run_at"], result.job_id) for spec, result in zip(specs, made, strict=True)),
        key=lambda t: (t[0], t[1], t[2] or ""),
    )
    order = []
    while jobs := mill.claim(17, now=T0 + H):
        order += [job.job_id for job in jobs]
    assert order == [job_id for _, _, job_id in expected]


def test_ids_rise_in_the_order_of_a_bulk_call_and_so_do_claims(mill: Mill) -> None:
    made = [result.job_id for result in mill.enqueue_all([{}] * 1_000, now=T0)]
    assert made == sorted(made)
    assert [job.job_id for job in mill.claim(500, now=T0)] == made[:500]


def test_a_queue_of_higher_priority_comes_first_whatever_its_jobs_priorities(mill: Mill) -> None:
    mill.queue("low", priority=-5)
    mill.queue("high", priority=5)
    for queue, priority in (("low", 100), ("default", 50), ("high", -100)):
        mill.enqueue_all([{"queue": queue, "priority": priority}] * 3, now=T0)
    jobs = mill.claim(7, queues=["low", "default", "high", "absent"], now=T0)
    assert [job.queue for job in jobs] == ["high"] * 3 + ["default"] * 3 + ["low"]


def test_queues_of_one_priority_share_by_weight(mill: Mill) -> None:
    weights = {"w1": 1, "w3": 3, "w6": 6}
    for name, weight in weights.items():
        mill.queue(name, weight=weight)
        mill.enqueue_all([{"queue": name}] * 300, now=T0)
    with mill.conn.transaction():  # the draw is the server's; a seed makes it the same in every run
        mill.conn.execute("select setseed(0.42)")
        firsts = Counter(mill.claim_one(queues=list(weights), now=T0).queue for _ in range(400))
    for name, weight in weights.items():
        assert abs(firsts[name] - 40 * weight) < 4 * (400 * weight / 10 * (1 - weight / 10)) ** 0.5, firsts


def test_an_empty_queue_of_high_weight_takes_nothing_from_the_others(mill: Mill) -> None:
    mill.queue("empty", weight=1_000_000)
    mill.enqueue_all([{}] * 10, now=T0)
    assert len(mill.claim(10, queues=["empty", "default"], now=T0)) == 10


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(mill: Mill) -> None:
    job = mill.new(T0)
    mill.conn.execute("update tidemill.queues set is_paused = true")
    assert mill.claim(10, now=T0) == []
    mill.conn.execute("update tidemill.queues set is_paused = false")
    assert mill.claim_one(now=T0).job_id == job


@pytest.mark.parametrize("spec", [{"hold": True}, {"delay_ms": 1_000}, {"queue": "q2"}, {"job_type": "other"}])
def test_what_is_not_due_not_here_or_not_wanted_is_not_claimed(mill: Mill, spec: dict[str, object]) -> None:
    mill.queue("q2")
    mill.new(T0, **spec)
    assert mill.claim(10, job_types=["t"], now=T0) == []


def test_what_is_due_at_this_very_instant_is_claimed(mill: Mill) -> None:
    mill.new(T0, delay_ms=1_000)
    assert mill.claim(now=T0 + 0.999999 * S) == []
    assert len(mill.claim(now=T0 + S)) == 1


def test_job_types_filter_within_the_order(mill: Mill) -> None:
    mill.enqueue_all([{"job_type": "a", "priority": 1}, {"job_type": "b"}, {"job_type": "a"}, {"job_type": "c", "priority": 9}], now=T0)
    assert [job.job_type for job in mill.claim(10, job_types=["a", "b"], now=T0)] == ["a", "b", "a"]
    assert mill.claim(10, job_types=[], now=T0) == []


@pytest.mark.parametrize(("limit", "queues"), [(0, ["default"]), (-1, ["default"]), (5, [])])
def test_a_claim_for_nothing_asks_nothing(mill: Mill, limit: int, queues: list[str]) -> None:
    mill.new(T0)
    assert claim(mill.store, ClaimRequest(mill.project_id, mill.worker_id, queues, limit), now=T0) == []


def test_a_claimed_job_carries_what_its_handler_needs(mill: Mill) -> None:
    mill.policy("p", max_attempts=9)
    mill.conn.execute("update tidemill.queues set visibility_timeout_secs = 77")
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    job_id = mill.new(
        T0,
        payload={"a": [1.0, 1e23]},
        schema_version=3,
        headers={"h": "v"},
        retry_policy="p",
        timeout_ms=5,
        traceparent=traceparent,
        tracestate="s=1",
    )
    (job,) = mill.claim(1, lease_ms=None, now=T0 + S)
    assert (job.job_id, job.job_type, job.queue, job.payload) == (job_id, "t", "default", '{"a": [1.0, 100000000000000000000000.0]}')
    assert (job.schema_version, job.headers, job.max_attempts, job.timeout_ms) == (3, '{"h": "v"}', 9, 5)
    assert (job.attempt, job.fence, job.lease_expires_at) == (1, 1, T0 + 78 * S)
    assert (job.traceparent, job.tracestate, job.checkpoint) == (traceparent, "s=1", None)


def test_the_bound_of_attempts_is_the_jobs_then_the_policys_then_the_queues_then_five(mill: Mill) -> None:
    named, default = mill.policy("named", max_attempts=3), mill.policy("default", max_attempts=4)
    assert named != default
    mill.new(T0)
    assert mill.claim_one(now=T0).max_attempts == 5
    mill.conn.execute("update tidemill.queues set default_retry_policy_id = %s", [default])
    for spec, bound in (
        ({}, 4),
        ({"retry_policy": "named"}, 3),
        ({"retry_policy": {"max_attempts": 2}}, 2),
        ({"retry_policy": "named", "max_attempts": 1}, 1),
    ):
        job_id = mill.new(T0, **spec)
        job = mill.claim_job(job_id, now=T0)
        assert job.max_attempts == bound == mill.view(job_id)["max_attempts"]
        (leased,) = mill.store.leased([lease_of(job)])
        assert leased.max_attempts == bound
