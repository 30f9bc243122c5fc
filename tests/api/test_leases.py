"""Leases over HTTP: zombies, long jobs, lost answers, cancels, and reports that must never strand a job."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from api.gateway import Gateway
from harness.mill import until, waiting_on_locks
from tidemill.domain import limits
from tidemill.domain.errors import TidemillError
from tidemill.engine import claim as claims
from tidemill.engine import operate
from tidemill.http import leases
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore

ROWS = """
    select (select to_jsonb(j) from tidemill.jobs j where j.id = %(id)s),
           (select to_jsonb(l) from tidemill.job_leases l where l.job_id = %(id)s),
           (select to_jsonb(e) from tidemill.job_queue_entries e where e.job_id = %(id)s),
           (select jsonb_agg(x order by x.fence) from tidemill.job_executions x where x.job_id = %(id)s),
           (select jsonb_agg(g order by g.id) from tidemill.job_logs g where g.job_id = %(id)s)
"""


def rows_of(gateway: Gateway, job_id: str) -> Any:
    return gateway.sql(ROWS, {"id": job_id})


def lapse(gateway: Gateway, job_id: str) -> None:
    """Ends the lease, sweeps it, and makes the retry due at once."""
    gateway.sql(
        "update tidemill.job_leases set claimed_at = claimed_at - interval '2 hours', lease_expires_at = claimed_at where job_id = %s",
        [job_id],
    )
    assert gateway.post("/v1/tick").status == 200
    gateway.post(f"/v1/jobs/{job_id}/promote")


def test_b002_a_zombies_old_token_writes_nothing_at_all(gateway: Gateway) -> None:
    job_id = gateway.enqueue(retry_policy={"strategy": "fixed", "base_delay_ms": 0})
    worker = gateway.worker()
    (old,) = gateway.claim(worker)
    lapse(gateway, job_id)
    (new,) = gateway.claim(worker)  # the same worker: the token changes all the same
    assert new["lease_token"] != old["lease_token"]
    assert (new["attempt"], new["fence"]) == (2, old["fence"] + 1)
    before = rows_of(gateway, job_id)

    token = {"lease_token": old["lease_token"]}
    beat = gateway.post(f"/v1/workers/{worker}/heartbeat", {"leases": [{"job_id": job_id, **token}]}).json
    assert (beat["lost"], beat["leases"]) == ([job_id], [])
    for verb, body in [
        ("start", {}), ("progress", {"current": 1}), ("checkpoint", {"data": 1}), ("output", {"data": 1}),
        ("children", {"jobs": [{"job_type": "c"}]}),
        ("logs", {"lines": [{"ts": "2027-01-01T00:00:00Z", "level": "info", "message": "m"}]}),
    ]:  # fmt: skip
        reply = gateway.post(f"/v1/jobs/{job_id}/{verb}", token | body)
        assert (reply.status, reply.json["code"]) == (409, "lease_lost"), verb
    for outcome, more in [("fail", {"error": {"class": "E", "message": "x" * 9_000}}), ("complete", {"result": 1}), ("release", {}),
                          ("snooze", {"delay_ms": 1}), ("cancelled", {}), ("crash", {})]:  # fmt: skip
        assert gateway.ack(old, outcome, **more) == {"job_id": job_id, "status": "lease_lost", "state": None, "code": "lease_lost"}

    assert rows_of(gateway, job_id) == before
    assert gateway.ack(new, "complete", result={"by": "B"})["status"] == "ok"
    assert gateway.get(f"/v1/jobs/{job_id}").json["result"] == {"by": "B"}


def test_b004_heartbeats_keep_a_job_that_outlasts_its_lease(gateway: Gateway) -> None:
    job_id, worker = gateway.enqueue(), gateway.worker()
    (job,) = gateway.claim(worker, lease_ms=5_000)
    lease = {"leases": [{"job_id": job_id, "lease_token": job["lease_token"]}]}
    ends = [job["lease_expires_at"]]
    for _ in range(15):  # 30 s, a heartbeat every 2 s: time passes by moving the lease back
        gateway.sql(
            "update tidemill.job_leases set claimed_at = claimed_at - interval '2 s', lease_expires_at = lease_expires_at - interval '2 s'"
        )
        beat = gateway.post(f"/v1/workers/{worker}/heartbeat", lease).json
        assert (beat["lost"], beat["cancel"]) == ([], [])
        ends.append(beat["leases"][0]["lease_expires_at"])
        stored = gateway.get(f"/v1/jobs/{job_id}").json
        assert stored["lease"]["lease_expires_at"] == ends[-1]
        gateway.post("/v1/tick")
        assert [gateway.claim() for _ in range(5)] == [[]] * 5
    assert ends == sorted(ends)
    assert gateway.get(f"/v1/jobs/{job_id}").json["attempt_count"] == 1
    assert gateway.get(f"/v1/jobs/{job_id}/executions").json["items"] == []
    assert gateway.ack(job, "complete")["status"] == "ok"
    assert gateway.post(f"/v1/workers/{worker}/heartbeat", lease).json["lost"] == [job_id]


@pytest.mark.parametrize("field", ["lease_ms", "extend_ms"])
@pytest.mark.parametrize("length", [1, 0, -1, 315_360_000_000])
def test_b004_a_heartbeat_that_asks_for_a_length_is_refused(gateway: Gateway, field: str, length: int) -> None:
    job_id, worker = gateway.enqueue(), gateway.worker()
    (job,) = gateway.claim(worker)
    before = rows_of(gateway, job_id)
    leases = [{"job_id": job_id, "lease_token": job["lease_token"]}]
    assert gateway.post(f"/v1/workers/{worker}/heartbeat", {"leases": leases, field: length}).status == 422
    assert gateway.post(f"/v1/workers/{worker}/heartbeat", {"leases": [{**leases[0], field: length}]}).status == 422
    assert rows_of(gateway, job_id) == before


REPEATS = [
    ("complete", {"result": {"a": 1.0}}, [("fail", {}), ("complete", {"result": {"a": 2}}), ("complete", {}), ("release", {})]),
    ("fail", {"error": {"class": "E", "message": "m"}}, [("complete", {}), ("fail", {"error": {"class": "E", "message": "n"}})]),
    ("cancelled", {}, [("complete", {}), ("snooze", {"delay_ms": 0})]),
    ("snooze", {"delay_ms": 60_000}, [("snooze", {"delay_ms": 1}), ("fail", {})]),
    ("release", {}, [("complete", {})]),
]


@pytest.mark.parametrize(("outcome", "content", "others"), REPEATS, ids=[r[0] for r in REPEATS])
def test_b042_a_repeated_ack_is_answered_like_the_first_and_a_contradiction_is_not(
    gateway: Gateway, outcome: str, content: dict[str, Any], others: list[Any]
) -> None:
    job_id = gateway.enqueue(max_attempts=1)
    (job,) = gateway.claim()
    first = gateway.ack(job, outcome, **content)
    assert first["status"] == "ok"
    after = rows_of(gateway, job_id)
    assert gateway.ack(job, outcome, **content) == first
    for other, more in others:
        assert gateway.ack(job, other, **more)["status"] == "lease_lost", other
    assert gateway.ack(job, outcome, **content) == first
    assert rows_of(gateway, job_id) == after


def test_b042_an_exchange_that_is_repeated_moves_nothing_twice(gateway: Gateway) -> None:
    for _ in range(3):
        gateway.enqueue()
    worker = gateway.worker()
    jobs = gateway.claim(worker)
    acks = [{"job_id": job["id"], "lease_token": job["lease_token"], "outcome": "complete"} for job in jobs]
    first = gateway.post("/v1/exchange", {"worker_id": worker, "acks": acks}).json
    again = gateway.post("/v1/exchange", {"worker_id": worker, "acks": acks}).json
    assert (
        first
        == again
        == {"heartbeat": None, "jobs": [], "acks": [{"job_id": j["id"], "status": "ok", "state": "completed", "code": None} for j in jobs]}
    )
    assert gateway.sql("select count(*) from tidemill.job_executions") == [(3,)]


def test_one_bad_ack_never_spoils_the_others(gateway: Gateway) -> None:
    gateway.enqueue()
    gateway.enqueue()
    good, late = gateway.claim()
    item = {"job_id": good["id"], "lease_token": good["lease_token"]}
    bad = [None, 5, [], {}, {"job_id": 1}, {**item, "outcome": "explode"}, {**item, "outcome": "snooze"},
           {**item, "outcome": "complete", "extra": 1},
           {"job_id": "abc", "lease_token": "abc", "outcome": "complete"}, {**item, "outcome": "fail", "exit_code": 2**40}]  # fmt: skip
    gone = {"job_id": late["id"], "lease_token": str(uuid4()), "outcome": "complete"}
    results = gateway.post("/v1/acks", {"acks": [*bad, gone, {**item, "outcome": "complete"}]}).json["results"]
    assert [r["status"] for r in results] == ["error"] * len(bad) + ["lease_lost", "ok"]
    assert all(r["code"] == "validation_error" and r["msg"] for r in results[: len(bad)])
    assert gateway.get(f"/v1/jobs/{good['id']}").json["state"] == "completed"


def test_b067_reports_with_unstorable_text_end_the_job_all_the_same(gateway: Gateway) -> None:
    bad = "a\x00b\ud800c"
    done_id, dead_id = gateway.enqueue(), gateway.enqueue(max_attempts=1)
    worker = gateway.worker(hostname=bad, version=bad)
    done, dead = gateway.claim(worker)
    token = {"lease_token": done["lease_token"]}
    assert gateway.post(f"/v1/jobs/{done_id}/progress", {**token, "current": 1, "message": bad}).status == 200
    assert gateway.post(f"/v1/jobs/{done_id}/checkpoint", {**token, "data": {bad: bad}, "cursor": bad}).status == 200
    assert gateway.post(f"/v1/jobs/{done_id}/output", {**token, "data": [bad]}).status == 200
    line = {"ts": "2027-01-01T00:00:00Z", "level": "error", "message": bad}
    assert gateway.post(f"/v1/jobs/{done_id}/logs", {**token, "lines": [line]}).json == {"stored": 1}
    assert gateway.ack(done, "complete", result={bad: [bad]})["state"] == "completed"
    assert gateway.ack(dead, "fail", error={"class": bad, "message": bad, "stack": bad})["state"] == "dead_letter"
    clean = "a\ufffdb\ufffdc"
    detail = gateway.get(f"/v1/jobs/{done_id}").json
    assert (detail["result"], detail["checkpoint"], detail["output"]) == ({clean: [clean]}, {clean: clean}, [clean])
    assert detail["progress"]["message"] == clean
    assert gateway.get(f"/v1/jobs/{dead_id}").json["error"] == {"class": clean, "message": clean}
    assert gateway.get(f"/v1/jobs/{done_id}/logs").json["items"][0]["message"] == clean


def test_a_result_over_the_limit_completes_the_job_and_says_so(gateway: Gateway) -> None:
    job_id = gateway.enqueue()
    (job,) = gateway.claim()
    answer = gateway.ack(job, "complete", result="x" * limits.RESULT_BYTES)
    assert (answer["status"], answer["state"], answer["code"]) == ("ok", "completed", "payload_too_large")
    assert gateway.get(f"/v1/jobs/{job_id}").json["result"] == {
        "result_left_out": {"bytes": limits.RESULT_BYTES + 2, "limit": limits.RESULT_BYTES}
    }
    assert gateway.ack(job, "complete", result="x" * limits.RESULT_BYTES) == answer


def test_errors_are_kept_to_8_kib_and_windows_exit_codes_fit(gateway: Gateway) -> None:
    job_id = gateway.enqueue(max_attempts=1)
    (job,) = gateway.claim()
    gateway.ack(job, "crash", error={"class": "c" * 500, "message": "ü" * 300_000, "stack": "s" * 1_000_000}, exit_code=0xC0000005)
    (run,) = gateway.get(f"/v1/jobs/{job_id}/executions").json["items"]
    assert (len(run["error"]["class"]), len(run["error"]["message"].encode()), len(run["stack"].encode())) == (200, 8_191, 8_192)
    assert run["exit_code"] == 0xC0000005 - 2**32


def test_b086_a_cancel_is_seen_by_the_worker_and_a_completion_wins(gateway: Gateway) -> None:
    job_id, worker = gateway.enqueue(), gateway.worker()
    (job,) = gateway.claim(worker)
    asked = gateway.post(f"/v1/jobs/{job_id}/cancel")
    assert (asked.status, asked.json["state"]) == (200, "running")
    assert asked.json["lease"]["cancel_requested_at"] is not None
    lease = {"job_id": job_id, "lease_token": job["lease_token"]}
    assert gateway.post(f"/v1/workers/{worker}/heartbeat", {"leases": [lease]}).json["cancel"] == [job_id]
    assert gateway.ack(job, "complete")["state"] == "completed"


@pytest.mark.parametrize("outcome", ["fail", "release", "snooze", "cancelled"])
def test_b086_an_asked_cancel_wins_over_all_that_would_run_the_job_again(gateway: Gateway, outcome: str) -> None:
    job_id = gateway.enqueue()
    (job,) = gateway.claim()
    gateway.post(f"/v1/jobs/{job_id}/cancel", {"force": False})
    assert gateway.ack(job, outcome, **({"delay_ms": 0} if outcome == "snooze" else {}))["state"] == "cancelled"
    assert gateway.claim() == []


def test_b086_waiting_jobs_are_cancelled_at_once_and_final_ones_never_move(gateway: Gateway) -> None:
    waiting = {"queued": gateway.enqueue(), "scheduled": gateway.enqueue(delay_ms=60_000), "pending": gateway.enqueue(hold=True)}
    for state, job_id in waiting.items():
        assert gateway.get(f"/v1/jobs/{job_id}").json["state"] == state
        assert gateway.post(f"/v1/jobs/{job_id}/cancel").json["state"] == "cancelled"
    assert gateway.claim() == []
    for job_id in waiting.values():
        before = rows_of(gateway, job_id)
        for verb in ("cancel", "retry", "promote"):
            reply = gateway.post(f"/v1/jobs/{job_id}/{verb}")
            assert (reply.status, reply.json["code"]) == (409, "invalid_transition")
            assert "cancelled" in reply.json["detail"]
        assert gateway.post(f"/v1/jobs/{job_id}/cancel", {"force": True}).status == 409
        assert rows_of(gateway, job_id) == before


def test_b086_a_dead_workers_job_is_cancelled_at_its_leases_end_without_another_run(gateway: Gateway) -> None:
    job_id = gateway.enqueue()
    gateway.claim()
    gateway.post(f"/v1/jobs/{job_id}/cancel")
    lapse(gateway, job_id)
    assert gateway.get(f"/v1/jobs/{job_id}").json["state"] == "cancelled"
    assert gateway.claim() == []


def test_b086_a_forced_cancel_ends_the_lease_and_the_worker_has_lost_it(gateway: Gateway) -> None:
    job_id = gateway.enqueue()
    (job,) = gateway.claim()
    assert gateway.post(f"/v1/jobs/{job_id}/cancel", {"force": True}).json["state"] == "cancelled"
    assert gateway.ack(job, "complete")["status"] == "lease_lost"


def test_b086_cancel_and_complete_at_the_same_instant_have_one_of_two_histories(gateway: Gateway, conn: Any) -> None:
    histories = set()
    store = PostgresStore(conn)
    for number in range(60):
        job_id = gateway.enqueue()
        (job,) = gateway.claim()
        ready = threading.Barrier(2)
        refused: list[BaseException] = []

        def cancel(job_id: str = job_id, ready: threading.Barrier = ready, refused: list[BaseException] = refused) -> None:
            ready.wait(120)
            try:
                operate.cancel(store, gateway.project_id, job_id, force=number % 2 == 0, roll=lambda: 0.5)  # noqa: B023 - same turn
            except TidemillError as fault:
                refused.append(fault)

        thread = threading.Thread(target=cancel)
        thread.start()
        ready.wait(120)
        status = gateway.ack(job, "complete")["status"]
        thread.join(120)
        state = gateway.get(f"/v1/jobs/{job_id}").json["state"]
        assert all(type(error).__name__ == "InvalidTransition" for error in refused), refused
        histories.add((status, state))
    assert histories <= {("ok", "completed"), ("lease_lost", "cancelled")}


def test_a_waiting_claim_looks_again_and_stops_in_time(gateway: Gateway) -> None:
    assert gateway.claim(wait_ms=1_000) == []
    assert sum(gateway.slept) == pytest.approx(1.0)
    assert 0.05 == gateway.slept[0] <= max(gateway.slept) <= 0.25
    gateway.slept.clear()
    gateway.remaining_ms = 2_500
    assert gateway.claim(wait_ms=20_000) == []
    assert sum(gateway.slept) == pytest.approx(0.5)
    gateway.enqueue()
    gateway.slept.clear()
    assert len(gateway.claim(wait_ms=20_000)) == 1
    assert gateway.slept == []


@pytest.mark.parametrize("path", ["claims", "exchange"])
def test_a_claim_waits_in_line_where_others_are_at_the_queue(gateway: Gateway, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (leases, claims):
        monkeypatch.setattr(module, "TURN_MS", 60_000)
    gateway.enqueue(partition_key="p")
    worker, wanted = gateway.worker(), {"queues": ["default"], "limit": 1}
    body = {"worker_id": worker, **(wanted if path == "claims" else {"claim": wanted})}
    with connect(gateway.dsn) as conn, ThreadPoolExecutor(1) as threads:
        with conn.transaction():
            conn.execute("select pg_advisory_xact_lock(tidemill.queue_lock(id)) from tidemill.queues")
            asked = threads.submit(gateway.post, f"/v1/{path}", body)
            until(lambda: waiting_on_locks(conn) == 1 or asked.done())
        assert len(asked.result().json["jobs"]) == 1


def test_reports_of_a_job_that_the_project_does_not_have_are_404(gateway: Gateway) -> None:
    for verb, body in [("start", {}), ("progress", {"current": 1}), ("output", {"data": 1})]:
        reply = gateway.post(f"/v1/jobs/{uuid4()}/{verb}", {"lease_token": str(uuid4()), **body})
        assert (reply.status, reply.json["code"]) == (404, "not_found")


def test_children_stand_or_fall_together(gateway: Gateway) -> None:
    job_id = gateway.enqueue(traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    (job,) = gateway.claim()
    token = {"lease_token": job["lease_token"]}
    refused = gateway.post(f"/v1/jobs/{job_id}/children", {**token, "jobs": [{"job_type": "ok"}, {"job_type": "no good"}]})
    assert refused.status == 422
    assert refused.json["errors"][0]["loc"] == ["jobs", 1, "job_type"]
    made = gateway.post(f"/v1/jobs/{job_id}/children", {**token, "jobs": [{"job_type": "ok"}, {"job_type": "also"}]}).json
    assert made["created"] == 2
    child = gateway.get(f"/v1/jobs/{made['results'][0]['job_id']}").json
    assert child["traceparent"] == job["traceparent"]
