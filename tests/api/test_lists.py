"""Lists: every row that matched throughout exactly once, whatever moves; bounded work, bounded pages."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from api.gateway import Gateway
from tidemill.domain import limits
from tidemill.http import scans

SORTS = ["created_at", "-created_at", "run_at", "-run_at", "finalized_at", "-finalized_at"]


def pages(gateway: Gateway, path: str = "/v1/jobs", **query: Any) -> Iterator[list[dict[str, Any]]]:
    cursor: dict[str, str] = {}
    while True:
        reply = gateway.get(path, query=query | cursor)
        assert reply.status == 200, reply.text
        yield reply.json["items"]
        if reply.json["next_cursor"] is None:
            return
        cursor = {"cursor": reply.json["next_cursor"]}


def ids(gateway: Gateway, **query: Any) -> list[str]:
    return [job["id"] for page in pages(gateway, **query) for job in page]


def bulk(gateway: Gateway, *jobs: dict[str, Any]) -> list[str]:
    reply = gateway.post("/v1/jobs/bulk", {"jobs": [{"job_type": "t", **job} for job in jobs]})
    assert reply.status == 200, reply.text
    return [result["job_id"] for result in reply.json["results"]]


def mixed(gateway: Gateway, count: int) -> list[str]:
    """Jobs made in one transaction, in all states: a fourth scheduled, a fourth held, of the rest some ended."""
    kinds: list[dict[str, Any]] = [{}, {"delay_ms": 3_600_000}, {}, {"hold": True}]
    made = bulk(gateway, *[kinds[i % 4] for i in range(count)])
    jobs = gateway.claim(limit=count // 4)
    outcomes = ["complete", "fail", "cancelled", "complete"]
    acks = [
        {"job_id": job["id"], "lease_token": job["lease_token"], "outcome": outcomes[i % 4]} for i, job in enumerate(jobs[: count // 5])
    ]
    assert gateway.post("/v1/acks", {"acks": [a | ({"retryable": False} if a["outcome"] == "fail" else {}) for a in acks]}).status == 200
    return made


KEYS = {"created_at": "created_at, id", "run_at": "run_at, id", "finalized_at": "finalized_at, id"}
IN_SORT = {"created_at": "true", "run_at": "status in ('scheduled', 'queued')", "finalized_at": "finalized_at is not null"}


def truth(gateway: Gateway, sort: str, where: str = "true") -> list[str]:
    name = sort.removeprefix("-")
    rows = gateway.sql(f"select id::text from tidemill.job_states where ({where}) and {IN_SORT[name]} order by {KEYS[name]}")
    found = [row[0] for row in rows]
    return found[::-1] if sort.startswith("-") else found


@pytest.mark.parametrize("sort", SORTS)
def test_b063_every_row_comes_exactly_once_in_every_order(gateway: Gateway, sort: str) -> None:
    mixed(gateway, 1_000)
    expected = truth(gateway, sort)
    assert len(expected) >= 150
    assert ids(gateway, sort=sort, limit=7) == expected
    assert ids(gateway, sort=sort, limit=200) == expected
    some = truth(gateway, sort, "status in ('scheduled', 'completed', 'dead_letter', 'queued')")
    assert ids(gateway, sort=sort, limit=50, state=["scheduled", "completed", "dead_letter", "queued"]) == some


def test_b063_a_last_page_has_no_cursor_whether_the_size_divides_or_not(gateway: Gateway) -> None:
    made = bulk(gateway, *[{}] * 20)
    for size in (1, 3, 4, 5, 7, 10, 19, 20, 21, 200):
        sizes = [len(page) for page in pages(gateway, sort="created_at", limit=size)]
        assert sizes == [size] * (20 // size) + ([20 % size] if 20 % size else [])
    assert ids(gateway, sort="created_at") == made


@pytest.mark.parametrize("sort", SORTS)
def test_b063_rows_that_move_while_a_walk_goes_on_are_never_repeated_and_the_others_never_skipped(gateway: Gateway, sort: str) -> None:
    mixed(gateway, 200)
    before = set(truth(gateway, sort))
    seen: list[str] = []
    for number, page in enumerate(pages(gateway, sort=sort, limit=7)):
        seen += [job["id"] for job in page]
        gateway.enqueue()
        for job in gateway.claim(limit=2):
            gateway.ack(job, "complete" if number % 2 else "fail", **({} if number % 2 else {"retryable": False}))
    after = set(truth(gateway, sort))
    assert len(seen) == len(set(seen))
    assert before & after <= set(seen)


def test_b063_equal_times_are_ordered_by_id(gateway: Gateway) -> None:
    made = bulk(gateway, *[{"run_at": "2030-01-01T00:00:00Z", "priority": i % 3} for i in range(50)])
    assert ids(gateway, sort="run_at", limit=7) == made
    assert ids(gateway, sort="-run_at", limit=7) == made[::-1]


def test_each_filter_finds_what_it_says(gateway: Gateway) -> None:
    gateway.post("/v1/queues", {"name": "other"})
    plain = gateway.enqueue()
    made = {
        "queue": ("other", gateway.enqueue(queue="other")),
        "job_type": ("mail.send", gateway.enqueue("mail.send")),
        "job_type_prefix": ("web.", gateway.enqueue("web.fetch")),
        "tag": (["a", "b"], gateway.enqueue(tags=["b", "c", "a"])),
        "any_tag": (["x", "y"], gateway.enqueue(tags=["y"])),
        "partition_key": ("p1", gateway.enqueue(partition_key="p1")),
        "rate_class": ("r1", gateway.enqueue(rate_class="r1")),
        "priority": ("-5", gateway.enqueue(priority=-5)),
        "principal_id": ("u1", gateway.enqueue(payload={"user_id": "u1"})),
        "correlation_id": ("c1", gateway.enqueue(payload={"request_id": "c1"})),
        "q": ("key1", gateway.enqueue(idempotency_key="key1")),
    }
    for name, (value, job_id) in made.items():
        assert ids(gateway, **{name: value}) == [job_id], name
    assert ids(gateway, q=plain) == [plain]
    assert ids(gateway, q="nothing") == []
    assert ids(gateway, tag=["a", "zz"]) == []
    worker = gateway.worker()
    (job,) = gateway.claim(worker, limit=1)
    assert ids(gateway, worker_id=worker) == ids(gateway, state="running") == [job["id"]]
    gateway.ack(job, "fail", error={"class": "Boom", "message": "m"})
    assert ids(gateway, error_class="Boom") == ids(gateway, state="retrying") == [job["id"]]
    batch = gateway.post("/v1/batches", {"name": "b", "jobs": [{"job_type": "t"}]}).json["batch"]["id"]
    member = ids(gateway, batch_id=batch)
    assert len(member) == 1
    spec = {"every_ms": 3_600_000, "job": {"job_type": "t"}}
    assert gateway.request("PUT", "/v1/schedules/s", spec).status in (200, 201)
    gateway.post("/v1/schedules/s/trigger")
    schedule = gateway.get("/v1/schedules/s").json["id"]
    made_by_it = ids(gateway, scheduled_job_id=schedule)
    assert made_by_it
    assert ids(gateway, scheduled_job_id=schedule, sort="created_at") == made_by_it[::-1]
    fingerprint = gateway.get(f"/v1/jobs/{plain}").json["fingerprint"]
    if fingerprint is not None:
        assert plain in ids(gateway, fingerprint=fingerprint)
    everything = ids(gateway)
    middle = gateway.get(f"/v1/jobs/{made['priority'][1]}").json["created_at"]
    assert ids(gateway, created_before=middle) + [job for job in everything if job not in ids(gateway, created_before=middle)]
    assert sorted(ids(gateway, created_after=middle) + ids(gateway, created_before=middle)) == sorted(everything)


@pytest.mark.parametrize("few", [True, False])
def test_old_jobs_that_wait_are_found_behind_many_that_have_ended(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, few: bool) -> None:
    waiting = bulk(gateway, *[{"delay_ms": 10**8}] * 9)
    held = gateway.enqueue(hold=True)
    done = bulk(gateway, *[{}] * 40)
    for job in gateway.claim():
        gateway.ack(job, "complete")
    monkeypatch.setattr(limits, "SCAN_ROWS", 10 if few else 8)
    found = list(pages(gateway, state="scheduled", limit=4))
    assert [job["id"] for page in found for job in page] == waiting[::-1]
    assert (len(found[0]) == 4) is few  # where there are many, the walk goes over all jobs and may end a page early
    assert ids(gateway, state=["queued", "scheduled"], sort="created_at", limit=4) == waiting
    assert not {held, *done} & {job["id"] for page in found for job in page}


def test_a_page_looks_at_a_bounded_number_of_rows_and_goes_on(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCAN_ROWS", 100)
    monkeypatch.setattr(scans, "CHUNK", 30)
    made = bulk(gateway, *[{"job_type": "rare" if i == 250 else "common"} for i in range(500)])
    sizes = [len(page) for page in pages(gateway, job_type="rare", limit=10)]
    assert len(sizes) == 6  # 500 rows in steps of 100; the sixth finds the end
    assert ids(gateway, job_type="rare", limit=10) == [made[250]]


@pytest.mark.parametrize(
    "query", [{}, {"limit": 1_000_000_000}, {"limit": 0}, {"limit": -1}, {"limit": "abc"}, {"limit": ""}, {"limit": [1, 2]}]
)
def test_b059_a_limit_is_1_to_200(gateway: Gateway, query: dict[str, Any]) -> None:
    reply = gateway.get("/v1/jobs", query=query)
    assert reply.status == (200 if not query else 422)
    if query:
        assert reply.json["errors"][0]["loc"] == ["query", "limit"]


def test_b059_pages_stop_before_4_mb_and_leave_payloads_out(gateway: Gateway) -> None:
    payload = {"text": "x" * 200_000}
    made = [job_id for _ in range(10) for job_id in bulk(gateway, *[{"payload": payload}] * 20)]
    without = gateway.get("/v1/jobs", query={"limit": 200})
    assert len(without.json["items"]) == 200
    assert len(without.text.encode()) < 300_000
    assert "payload" not in without.json["items"][0]
    seen = []
    for page in pages(gateway, limit=200, include="payload"):
        assert len(json.dumps(page, ensure_ascii=False).encode()) < limits.PAGE_BYTES + 10_000
        assert all(job["payload"] == payload for job in page)
        seen += [job["id"] for job in page]
    assert seen == made[::-1]


def test_b059_a_payload_over_the_limit_is_413_for_one_job_and_an_item_error_in_bulk(gateway: Gateway) -> None:
    fits, over = "x" * (limits.PAYLOAD_BYTES - 2), "x" * (limits.PAYLOAD_BYTES - 1)
    assert gateway.post("/v1/jobs", {"job_type": "t", "payload": fits}).status == 201
    reply = gateway.post("/v1/jobs", {"job_type": "t", "payload": over})
    assert (reply.status, reply.json["code"]) == (413, "payload_too_large")
    assert "262,144" in reply.json["detail"]
    grown = gateway.post("/v1/jobs", '{"job_type":"t","payload":[' + ",".join(["1e308"] * 1_000) + "]}")
    assert grown.status == 413  # a few KB as sent, 300 KB written in full
    jobs = [{"job_type": "t", "payload": fits}, {"job_type": "t", "payload": over}]
    assert gateway.post("/v1/jobs/bulk", {"jobs": jobs}).status == 422
    results = gateway.post("/v1/jobs/bulk", {"jobs": jobs, "atomic": False}).json["results"]
    assert "job_id" in results[0]
    assert (results[1]["error"]["code"], results[1]["error"]["loc"]) == ("payload_too_large", ["jobs", 1, "payload"])


def test_b059_a_job_with_everything_large_is_one_answer(gateway: Gateway) -> None:
    big = "x" * (limits.PAYLOAD_BYTES - 100)
    job_id = gateway.enqueue(payload=big, max_attempts=30, retry_policy={"strategy": "fixed", "base_delay_ms": 0, "jitter": False})
    for _ in range(25):
        (job,) = gateway.claim()
        gateway.ack(job, "fail", error={"class": "E", "message": "m" * 20_000, "stack": "s" * 20_000})
    (job,) = gateway.claim()
    for verb in ("checkpoint", "output"):
        assert gateway.post(f"/v1/jobs/{job_id}/{verb}", {"lease_token": job["lease_token"], "data": big}).status == 200
    gateway.ack(job, "complete", result=big)
    detail = gateway.get(f"/v1/jobs/{job_id}")
    assert detail.status == 200
    assert len(detail.text) < 4_500_000
    runs = gateway.get(f"/v1/jobs/{job_id}/executions")
    assert (runs.status, len(runs.json["items"]), len(runs.text) < 4_500_000) == (200, 26, True)


def test_cursors_are_bound_to_list_filter_and_project(gateway: Gateway, database: str) -> None:
    bulk(gateway, *[{}] * 5)
    cursor = gateway.get("/v1/jobs", query={"limit": 2, "queue": "default"}).json["next_cursor"]
    good = {"cursor": cursor, "queue": "default"}
    assert gateway.get("/v1/jobs", query={**good, "limit": 3}).status == 200
    for query in (
        {"cursor": cursor},
        {**good, "sort": "created_at"},
        {**good, "queue": "other"},
        {**good, "cursor": cursor[:-2] + "AA"},
        {**good, "cursor": ""},
    ):
        reply = gateway.get("/v1/jobs", query=query)
        assert (reply.status, reply.json["errors"][0]["loc"]) == (422, ["query", "cursor"]), query
    other = Gateway(database)
    try:
        assert other.get("/v1/jobs", query=good).status == 422
        assert ids(other) == []
    finally:
        other.close()


WRONG: list[dict[str, Any]] = [
    {"nope": "1"}, {"state": "lost"}, {"created_after": "2027-01-01T00:00:00"}, {"priority": "1.5"}, {"worker_id": "x"}, {"sort": "id"},
    {"queue": "\x00"}, {"queue": ["a", "b"]}, {"fingerprint": "zz"}, {"include": "all"}, {"job_type_prefix": ""},
]  # fmt: skip


@pytest.mark.parametrize("query", WRONG)
def test_wrong_parameters_are_named(gateway: Gateway, query: dict[str, Any]) -> None:
    reply = gateway.get("/v1/jobs", query=query)
    assert reply.status == 422
    assert reply.json["errors"][0]["loc"][:2] == ["query", next(iter(query))]


def test_logs_go_on_after_an_id_and_from_a_level_up(gateway: Gateway) -> None:
    job_id = gateway.enqueue()
    (job,) = gateway.claim()
    levels = ["debug", "info", "warning", "error"]
    lines = [{"ts": "2027-01-01T00:00:00Z", "level": levels[i % 4], "message": f"m{i}"} for i in range(20)]
    gateway.post(f"/v1/jobs/{job_id}/logs", {"lease_token": job["lease_token"], "lines": lines})
    path = f"/v1/jobs/{job_id}/logs"
    assert [line["message"] for page in pages(gateway, path, limit=7) for line in page] == [f"m{i}" for i in range(20)]
    grave = [line for page in pages(gateway, path, level="warning", limit=3) for line in page]
    assert {line["level"] for line in grave} == {"warning", "error"}
    assert len(grave) == 10
    after = gateway.get(path, query={"limit": 5}).json["items"][-1]["id"]
    assert gateway.get(path, query={"after": after}).json["items"][0]["message"] == "m5"


def test_what_an_operator_did_to_a_job_is_part_of_its_story(gateway: Gateway) -> None:
    job_id = gateway.enqueue(hold=True)
    assert gateway.request("PATCH", f"/v1/jobs/{job_id}", {"priority": 3, "tags": ["x"]}).status == 200
    assert gateway.post(f"/v1/jobs/{job_id}/promote").status == 200
    told = gateway.get(f"/v1/jobs/{job_id}/events").json["items"]
    assert [e["event"] for e in told] == ["created", "edited", "promoted"]
    assert told[1]["detail"].startswith("by ")
    assert told[1]["detail"].endswith(": priority, tags")


def test_a_jobs_story_is_told_in_order(gateway: Gateway) -> None:
    job_id = gateway.enqueue(max_attempts=2, retry_policy={"strategy": "fixed", "base_delay_ms": 0, "jitter": False})
    for outcome in ("fail", "fail"):
        (job,) = gateway.claim()
        gateway.ack(job, outcome, error={"class": "E", "message": "m"})
    gateway.post(f"/v1/jobs/{job_id}/retry")
    gateway.claim()
    told = gateway.get(f"/v1/jobs/{job_id}/events").json["items"]
    assert [e["event"] for e in told] == [
        "created",
        "started",
        "failed",
        "started",
        "failed",
        "dead_letter",
        "retried",
        "claimed",
        "started",
    ]
    assert [e["at"] for e in told] == sorted(e["at"] for e in told)
