"""Rate classes and standing limits over HTTP: fields, bounds, names with slashes, and what they do to jobs."""

import pytest

from api.gateway import Gateway, add_key, found
from harness.mill import until

CLASS = {"limit": 10, "window_ms": 1_000, "burst": 20}


def test_rate_class_is_created_shown_replaced_and_removed(gateway: Gateway) -> None:
    made = gateway.request("PUT", "/v1/rate-classes/mail", CLASS)
    assert made.status == 201
    assert made.json == {"name": "mail", **CLASS, "is_paused": False, "tokens": 20.0, "closed_until": None}
    again = gateway.request("PUT", "/v1/rate-classes/mail", {"limit": 5, "window_ms": 1_000})
    assert again.status == 200
    assert (again.json["limit"], again.json["burst"]) == (5, 5), "the burst is the limit unless it is said"
    assert gateway.get("/v1/rate-classes/mail").json["limit"] == 5
    assert gateway.request("DELETE", "/v1/rate-classes/mail").status == 204
    assert gateway.get("/v1/rate-classes/mail").status == 404
    assert gateway.request("DELETE", "/v1/rate-classes/mail").status == 404


@pytest.mark.parametrize("collection", ["rate-classes", "concurrency-limits"])
@pytest.mark.parametrize("name", ["mail/eu/bulk", "mail%2Feu%2Fbulk", "a/pause"])
def test_names_may_hold_slashes(gateway: Gateway, collection: str, name: str) -> None:
    body = CLASS if collection == "rate-classes" else {"job_type": "t", "max_concurrent": 3}
    made = gateway.request("PUT", f"/v1/{collection}/{name}", body)
    assert made.status == 201, made.text
    assert made.json["name"] == name.replace("%2F", "/")
    assert gateway.get(f"/v1/{collection}/{name}").status == 200
    assert gateway.request("DELETE", f"/v1/{collection}/{name}").status == 204


@pytest.mark.parametrize("collection", ["rate-classes", "concurrency-limits"])
def test_list_goes_by_name_page_by_page(gateway: Gateway, collection: str) -> None:
    body = CLASS if collection == "rate-classes" else {"job_type": "t", "max_concurrent": 3}
    for name in ("c", "a", "b"):
        gateway.request("PUT", f"/v1/{collection}/{name}", body)
    first = gateway.get(f"/v1/{collection}", query={"limit": 2}).json
    rest = gateway.get(f"/v1/{collection}", query={"limit": 2, "cursor": first["next_cursor"]}).json
    assert [item["name"] for item in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"limit": 1},
        {**CLASS, "limit": 0},
        {**CLASS, "window_ms": 0},
        {**CLASS, "burst": 0},
        {**CLASS, "limit": 10**9 + 1},
        {**CLASS, "tokens": 5},
        {**CLASS, "is_paused": None},
        {**CLASS, "limit": 1.5},
    ],
)
def test_faulty_rate_class_is_refused_by_field(gateway: Gateway, body: dict[str, object]) -> None:
    reply = gateway.request("PUT", "/v1/rate-classes/mail", body)
    assert reply.status == 422
    assert reply.json["errors"]


def test_standing_limit_is_created_shown_replaced_and_removed(gateway: Gateway) -> None:
    made = gateway.request("PUT", "/v1/concurrency-limits/db", {"job_type": "heavy", "max_concurrent": 2})
    assert made.status == 201
    shown = made.json
    assert shown.pop("created_at").endswith("Z")
    assert shown == {"name": "db", "queue": None, "job_type": "heavy", "max_concurrent": 2, "on_saturated": "queue", "running": 0}
    again = gateway.request("PUT", "/v1/concurrency-limits/db", {"queue": "default", "max_concurrent": 1, "on_saturated": "cancel_running"})
    assert again.status == 200
    assert (again.json["queue"], again.json["job_type"], again.json["on_saturated"]) == ("default", None, "cancel_running")
    gateway.enqueue()
    gateway.enqueue()
    assert len(gateway.claim()) == 1
    assert gateway.get("/v1/concurrency-limits/db").json["running"] == 1
    assert gateway.request("DELETE", "/v1/concurrency-limits/db").status == 204
    assert len(gateway.claim()) == 1
    assert gateway.get("/v1/concurrency-limits/db").status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"max_concurrent": 1},
        {"queue": "default", "job_type": "t", "max_concurrent": 1},
        {"queue": "default"},
        {"queue": "nowhere", "max_concurrent": 1},
        {"queue": "default", "max_concurrent": -1},
        {"queue": "default", "max_concurrent": 1, "on_saturated": "explode"},
    ],
)
def test_faulty_standing_limit_is_refused_by_field(gateway: Gateway, body: dict[str, object]) -> None:
    reply = gateway.request("PUT", "/v1/concurrency-limits/db", body)
    assert reply.status == 422
    assert reply.json["errors"]


@pytest.mark.parametrize("collection", ["rate-classes", "concurrency-limits"])
def test_name_that_cannot_be_is_refused(gateway: Gateway, collection: str) -> None:
    body = CLASS if collection == "rate-classes" else {"job_type": "t", "max_concurrent": 3}
    reply = gateway.request("PUT", f"/v1/{collection}/-mail", body)
    assert reply.status == 422
    assert reply.json["errors"][0]["loc"] == ["name"]


def test_limits_of_another_project_are_not_there(gateway: Gateway) -> None:
    _, stranger = found(gateway.dsn)
    gateway.request("PUT", "/v1/rate-classes/mail", CLASS)
    gateway.request("PUT", "/v1/concurrency-limits/db", {"queue": "default", "max_concurrent": 1})
    for path in ("/v1/rate-classes/mail", "/v1/concurrency-limits/db"):
        assert gateway.get(path, key=stranger).status == 404
        assert gateway.request("DELETE", path, key=stranger).status == 404
    assert gateway.request("PUT", "/v1/rate-classes/mail", {"limit": 1, "window_ms": 1}, key=stranger).status == 201
    assert gateway.get("/v1/rate-classes/mail").json["limit"] == 10


def test_only_admins_set_limits_and_readers_see_them(gateway: Gateway) -> None:
    reader = add_key(gateway.dsn, gateway.project_id, "read")
    gateway.request("PUT", "/v1/rate-classes/mail", CLASS)
    assert gateway.get("/v1/rate-classes/mail", key=reader).status == 200
    assert gateway.request("PUT", "/v1/rate-classes/mail", CLASS, key=reader).status == 403


def test_kill_switch_stops_jobs_and_explain_says_so_then_resumes_from_zero(gateway: Gateway) -> None:
    gateway.worker()
    gateway.request("PUT", "/v1/rate-classes/mail", {**CLASS, "is_paused": True})
    job = gateway.enqueue(rate_class="mail")
    assert gateway.claim() == []
    blocked = gateway.get(f"/v1/jobs/{job}/explain").json["blocked_by"]
    assert [b["reason"] for b in blocked] == ["rate_class"]
    assert blocked[0]["detail"] == "rate class mail is paused"
    assert gateway.request("PUT", "/v1/rate-classes/mail", {**CLASS, "limit": 100, "is_paused": False}).json["tokens"] < 20
    assert [j["id"] for j in until(gateway.claim)] == [job]


def test_unknown_rate_class_does_not_block_and_explain_says_so(gateway: Gateway) -> None:
    gateway.worker()
    job = gateway.enqueue(rate_class="nobody-made-it")
    answer = gateway.get(f"/v1/jobs/{job}/explain").json
    assert answer["blocked_by"] == []
    assert answer["admissible"] is True
    assert answer["notes"] == ["rate class nobody-made-it does not exist: it holds nothing back"]
    assert [j["id"] for j in gateway.claim()] == [job]


def test_queue_that_gets_a_limit_while_jobs_run_counts_them(gateway: Gateway) -> None:
    for _ in range(5):
        gateway.enqueue()
    assert len(gateway.claim(limit=2)) == 2
    assert gateway.request("PATCH", "/v1/queues/default", {"max_concurrency": 3}).status == 200
    assert len(gateway.claim()) == 1
    assert gateway.request("PATCH", "/v1/queues/default", {"max_concurrency": None}).status == 200
    assert len(gateway.claim()) == 2


def test_retry_after_of_a_worker_closes_the_class_and_repeats_of_the_ack_are_ok(gateway: Gateway) -> None:
    gateway.request("PUT", "/v1/rate-classes/mail", CLASS)
    first, second = (gateway.enqueue(rate_class="mail", max_attempts=1) for _ in range(2))
    (job,) = gateway.claim(limit=1)
    ack = {"error": {"class": "TooMany", "message": "429"}, "throttle_ms": 3_600_000}
    for _ in range(2):
        assert gateway.ack(job, "fail", **ack) == {"job_id": first, "status": "ok", "state": "scheduled", "code": None}
    assert gateway.ack(job, "fail", **{**ack, "throttle_ms": 1})["status"] == "lease_lost"
    assert gateway.get("/v1/rate-classes/mail").json["closed_until"] is not None
    assert gateway.get(f"/v1/jobs/{first}").json["attempt_count"] == 0
    assert gateway.claim() == []
    blocked = gateway.get(f"/v1/jobs/{second}/explain").json["blocked_by"][0]
    assert (blocked["reason"], blocked["clears_at"] is not None) == ("rate_class", True)
