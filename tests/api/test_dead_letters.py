"""Dead letters: listed by when they died, grouped by kind of error, settled one by one; the counts follow every way in and out."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from api.gateway import Gateway, add_key
from tidemill.domain import limits
from tidemill.engine.dead_letters import fold
from tidemill.store.database import Database

LIST = "/v1/dead-letters"


def kill(gateway: Gateway, *deaths: tuple[str, str], queue: str = "default", **fields: Any) -> list[str]:
    """Dead jobs, one per (class, message), in that order."""
    jobs = [{"job_type": f"t.{n % 3}", "queue": queue, "payload": {"n": n}, **fields} for n in range(len(deaths))]
    made = [result["job_id"] for result in gateway.post("/v1/jobs/bulk", {"jobs": jobs}).json["results"]]
    claimed = {job["id"]: job for job in gateway.claim(queues=[queue], limit=500)}
    for job_id, (name, message) in zip(made, deaths, strict=True):
        gateway.ack(claimed[job_id], "fail", retryable=False, error={"class": name, "message": message})
    return made


def groups(gateway: Gateway, **query: Any) -> list[dict[str, Any]]:
    reply = gateway.get(LIST, query={"group_by": "error", **query})
    assert reply.status == 200, reply.text
    items: list[dict[str, Any]] = reply.json["items"]
    return items


def pages(gateway: Gateway, **query: Any) -> Iterator[list[dict[str, Any]]]:
    cursor: dict[str, str] = {}
    while True:
        reply = gateway.get(LIST, query=query | cursor)
        assert reply.status == 200, reply.text
        yield reply.json["items"]
        if reply.json["next_cursor"] is None:
            return
        cursor = {"cursor": reply.json["next_cursor"]}


def folded(gateway: Gateway) -> int:
    database = Database(gateway.dsn)
    try:
        return database.run(lambda store: fold(store, limit=1_000))["folded"]
    finally:
        database.close()


THREE = [
    ("Timeout", "no answer from host 10.0.0.1 after 30 s"),
    ("Timeout", "no answer from host 10.0.0.27 after 5 s"),
    ("KeyError", "'a'"),
]


def test_dead_letters_come_latest_first_with_what_is_needed_to_judge_them(gateway: Gateway) -> None:
    made = kill(gateway, *THREE)
    items = gateway.get(LIST).json["items"]
    assert [item["job_id"] for item in items] == made[::-1]
    first = items[0]
    assert first["error"] == {"class": "KeyError", "message": "'a'"}
    assert (first["reason"], first["attempt_count"], first["queue"], first["resolved"]) == ("not_retryable", 1, "default", False)
    assert "payload" not in first
    assert gateway.get(LIST, query={"include": "payload", "sort": "moved_at"}).json["items"][2]["payload"] == {"n": 2}
    assert items[1]["error_group"] == items[2]["error_group"] != first["error_group"]


def test_filters_are_those_of_jobs(gateway: Gateway) -> None:
    made = kill(gateway, *THREE, tags=["x"])
    group = gateway.get(LIST).json["items"][2]["error_group"]
    found: dict[str, list[str]] = {}
    queries: dict[str, dict[str, Any]] = {
        "type": {"job_type": "t.1"}, "prefix": {"job_type_prefix": "t."}, "class": {"error_class": "Timeout"},
        "group": {"error_group": group}, "tag": {"tag": "x"}, "no tag": {"tag": "y"},
        "q": {"q": made[1]}, "state": {"state": "queued"}, "queue": {"queue": "other"},
        "group and type": {"error_group": group, "job_type": "t.0"},
    }  # fmt: skip
    for name, query in queries.items():
        found[name] = [item["job_id"] for item in gateway.get(LIST, query=query).json["items"]]
    assert found == {
        "type": [made[1]], "prefix": made[::-1], "class": made[1::-1], "group": made[1::-1], "tag": made[::-1], "no tag": [],
        "q": [made[1]], "state": [], "queue": [], "group and type": [made[0]],
    }  # fmt: skip
    assert [job["id"] for job in gateway.get("/v1/jobs", query={"error_group": group}).json["items"]] == made[1::-1]
    assert gateway.get(LIST, query={"error_group": "x"}).status == 422


@pytest.mark.parametrize("sort", ["moved_at", "-moved_at"])
def test_b063_every_dead_letter_comes_once_while_others_die_and_are_settled(gateway: Gateway, sort: str) -> None:
    made = kill(gateway, *[("E", f"m{n % 2}") for n in range(40)])
    walk = pages(gateway, sort=sort, limit=7)
    seen = [item["job_id"] for item in next(walk)]
    kill(gateway, ("E", "later"))
    left = [job_id for job_id in made if job_id not in seen]
    gone = left[: len(left) // 2]
    for job_id in gone:
        assert gateway.post(f"{LIST}/{job_id}/resolve", {"action": "discard"}).status == 200
    seen += [item["job_id"] for page in walk for item in page]
    assert len(seen) == len(set(seen))
    stayed = [job_id for job_id in made if job_id not in gone]
    ours = [job_id for job_id in seen if job_id in made]
    assert ours == (stayed if sort == "moved_at" else stayed[::-1])


def test_a_filter_that_matches_nothing_ends_its_page_early_and_goes_on(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    made = kill(gateway, *[("E", "m")] * 30)
    monkeypatch.setattr(limits, "SCAN_ROWS", 10)
    assert [len(page) for page in pages(gateway, job_type="nothing")] == [0] * 4
    assert [item["job_id"] for item in next(pages(gateway, q=made[3], job_type="t.0"))] == [made[3]]


def test_kinds_of_errors_have_counts_times_a_sample_and_a_filter_that_finds_their_jobs(gateway: Gateway) -> None:
    before = datetime.now(UTC)
    made = kill(gateway, *THREE)
    key_error, timeout = groups(gateway)
    assert (timeout["error_class"], timeout["message"]) == ("Timeout", "no answer from host <n> after <n> s")
    assert (key_error["error_class"], key_error["message"]) == ("KeyError", "<text>")
    assert timeout["count"] == {"count": 2, "approximate": False}
    assert timeout["total"] == 2
    assert before <= datetime.fromisoformat(timeout["first_seen_at"]) < datetime.fromisoformat(timeout["last_seen_at"])
    assert timeout["sample_job_id"] == made[1]
    assert timeout["sample_message"] == THREE[1][1]
    assert (timeout["queues"], timeout["job_types"]) == (["default"], ["t.0", "t.1"])
    assert len(timeout["last_24_h"]) == 24
    assert sum(timeout["last_24_h"]) == 2
    scope = {name: value[0] if isinstance(value, list) else value for name, value in timeout["filter"].items()}
    assert [job["id"] for job in gateway.get("/v1/jobs", query=scope).json["items"]] == made[1::-1]


def test_the_filter_of_a_kind_is_a_scope_for_a_bulk_operation(gateway: Gateway) -> None:
    made = kill(gateway, *THREE)
    timeout = groups(gateway)[1]
    plan = gateway.post("/v1/operations", {"action": "retry", "filter": timeout["filter"], "dry_run": True})
    assert plan.status == 201, plan.text
    assert gateway.post(f"/v1/operations/{plan.json['id']}/apply").status in (200, 202)
    assert gateway.post("/v1/tick").status == 200
    assert [gateway.get(f"/v1/jobs/{job_id}").json["state"] for job_id in made] == ["queued", "queued", "dead_letter"]
    assert [group["error_class"] for group in groups(gateway)] == ["KeyError"]


def test_folding_changes_nothing_that_anybody_sees(gateway: Gateway) -> None:
    kill(gateway, *THREE)
    before = groups(gateway)
    assert folded(gateway) == 3
    assert groups(gateway) == before
    made = kill(gateway, *THREE)
    mixed = groups(gateway)
    assert [(g["count"]["count"], g["total"]) for g in mixed] == [(2, 2), (4, 4)]
    assert folded(gateway) == 3
    assert groups(gateway) == mixed
    gateway.post(f"/v1/jobs/{made[0]}/retry")
    assert groups(gateway)[1]["count"]["count"] == 3
    folded(gateway)
    assert (groups(gateway)[1]["count"]["count"], groups(gateway)[1]["total"]) == (3, 4)
    assert gateway.sql("select count(*) from tidemill.error_group_news") == [(0,)]


@pytest.mark.parametrize("fold_first", [True, False])
def test_counts_follow_every_way_out(gateway: Gateway, fold_first: bool) -> None:
    made = kill(gateway, *[("E", "m")] * 6)

    def count() -> int:
        if fold_first:
            folded(gateway)
        found = groups(gateway)
        return found[0]["count"]["count"] if found else 0

    assert count() == 6
    gateway.post(f"{LIST}/{made[0]}/resolve", {"action": "retry"})
    gateway.post(f"{LIST}/{made[1]}/resolve", {"action": "discard"})
    assert count() == 4
    assert gateway.request("DELETE", f"/v1/jobs/{made[1]}").status == 204  # was not open any more
    assert gateway.request("DELETE", f"/v1/jobs/{made[2]}").status == 204
    assert count() == 3
    gateway.sql("update tidemill.jobs set retention_until = now() - interval '1 s' where id = %s", [made[3]])
    assert gateway.post("/v1/tick").status == 200
    assert count() == 2
    for job_id in made[4:]:
        gateway.post(f"/v1/jobs/{job_id}/retry")
    assert groups(gateway) == []


def test_groups_can_be_narrowed_by_queue_type_and_class_and_by_nothing_else(gateway: Gateway) -> None:
    gateway.post("/v1/queues", {"name": "slow"})
    kill(gateway, *THREE)
    kill(gateway, ("Timeout", "no answer from host 1 after 2 s"), queue="slow")
    for _ in range(2):
        assert [g["count"]["count"] for g in groups(gateway, queue="slow")] == [1]
        assert sum(groups(gateway, queue="slow")[0]["last_24_h"]) == 1
        assert [g["count"]["count"] for g in groups(gateway, job_type="t.0")] == [2]
        assert [g["error_class"] for g in groups(gateway, error_class="KeyError")] == ["KeyError"]
        assert groups(gateway, queue="slow")[0]["filter"]["queue"] == "slow"
        assert groups(gateway, job_type_prefix="u") == []
        folded(gateway)
    for more in ({"tag": "x"}, {"state": "dead_letter"}, {"sort": "moved_at"}, {"include": "payload"}):
        assert gateway.get(LIST, query={"group_by": "error", **more}).status == 422


def test_groups_come_each_once_page_by_page(gateway: Gateway) -> None:
    kill(gateway, *[(f"E{n}", "m") for n in range(25)])
    whole = [group["error_class"] for group in groups(gateway)]
    assert whole == [f"E{n}" for n in range(24, -1, -1)]
    for size in (1, 5, 7, 25):
        assert [group["error_class"] for page in pages(gateway, group_by="error", limit=size) for group in page] == whole
    first = gateway.get(LIST, query={"group_by": "error", "limit": 3}).json["next_cursor"]
    assert gateway.get(LIST, query={"cursor": first}).status == 422


def test_more_kinds_than_are_looked_at_are_called_approximate(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    kill(gateway, *[(f"E{n}", "m") for n in range(25)])
    monkeypatch.setattr(limits, "SCAN_ROWS", 10)
    found = groups(gateway)
    assert len(found) == 10
    assert all(group["count"]["approximate"] for group in found)


def test_resolving_tells_what_became_of_the_job_and_keeps_the_note(gateway: Gateway) -> None:
    retried, discarded = kill(gateway, ("E", "m"), ("E", "m"))
    reply = gateway.post(f"{LIST}/{retried}/resolve", {"action": "retry", "note": "host is back"})
    assert reply.status == 200
    letter = reply.json["dead_letter"]
    assert (letter["resolved"], letter["resolution"], letter["note"]) == (True, "retry", "host is back")
    assert letter["resolved_at"] is not None
    assert letter["resolved_by"] is not None
    assert reply.json["job"]["state"] == "queued"
    reply = gateway.post(f"{LIST}/{discarded}/resolve", {"action": "discard", "note": "a test"})
    assert (reply.json["dead_letter"]["resolution"], reply.json["job"]["state"]) == ("discard", "dead_letter")
    assert gateway.get(LIST).json["items"] == []
    again = gateway.post(f"{LIST}/{discarded}/resolve", {"action": "discard"})
    assert (again.status, again.json["dead_letter"]["note"]) == (200, "a test")
    events = [event["event"] for event in gateway.get(f"/v1/jobs/{discarded}/events").json["items"]]
    assert events[-2:] == ["dead_letter", "discarded"]
    notes = gateway.sql(
        "select action, target_id, after ->> 'resolution' from tidemill.audit_log where target_kind = 'dead_letter' order by id"
    )
    assert notes == [("dead-letters.resolve", retried, "retry"), ("dead-letters.resolve", discarded, "discard")]


def test_a_discarded_job_may_still_be_retried_and_may_die_again(gateway: Gateway) -> None:
    (job_id,) = kill(gateway, ("E", "m"))
    gateway.post(f"{LIST}/{job_id}/resolve", {"action": "discard"})
    assert gateway.post(f"{LIST}/{job_id}/resolve", {"action": "retry"}).json["job"]["state"] == "queued"
    (job,) = gateway.claim()
    gateway.ack(job, "fail", retryable=False, error={"class": "F", "message": "again"})
    assert [item["error"]["class"] for item in gateway.get(LIST).json["items"]] == ["F"]


def test_only_dead_jobs_of_the_project_can_be_settled_and_nothing_half(gateway: Gateway) -> None:
    alive = gateway.enqueue()
    for action in ("retry", "discard"):
        reply = gateway.post(f"{LIST}/{alive}/resolve", {"action": action})
        assert (reply.status, reply.json["code"]) == (409, "invalid_transition")
    assert gateway.post(f"{LIST}/{alive}/resolve", {"action": "delete"}).status == 422
    assert gateway.post(f"{LIST}/{alive}/resolve", {}).status == 422
    assert gateway.post(f"{LIST}/nothing/resolve", {"action": "retry"}).status == 404
    (dead,) = kill(gateway, ("E", "m"), unique={})
    gateway.enqueue("t.0", payload={"n": 0}, unique={})
    reply = gateway.post(f"{LIST}/{dead}/resolve", {"action": "retry", "note": "n"})
    assert (reply.status, reply.json["code"]) == (409, "unique_conflict")
    assert gateway.get(LIST).json["items"][0]["note"] is None
    other = Gateway(gateway.dsn)
    try:
        assert other.post(f"{LIST}/{dead}/resolve", {"action": "discard"}).status == 404
        assert other.get(LIST).json["items"] == []
        assert groups(other) == []
    finally:
        other.close()
    assert gateway.post(f"{LIST}/{dead}/resolve", {"action": "discard"}, key=add_key(gateway.dsn, gateway.project_id, "read")).status == 403


def test_a_lease_that_ran_out_is_a_kind_of_its_own(gateway: Gateway) -> None:
    gateway.enqueue(max_attempts=1)
    gateway.claim(lease_ms=1_000)
    gateway.sql("update tidemill.job_leases set claimed_at = now() - interval '2 s', lease_expires_at = now() - interval '1 s'")
    assert gateway.post("/v1/tick").status == 200
    (group,) = groups(gateway)
    assert (group["error_class"], group["count"]["count"]) == ("lease_expired", 1)


def test_a_page_of_large_payloads_ends_before_four_megabytes(gateway: Gateway) -> None:
    for _ in range(2):
        kill(gateway, *[("E", "m")] * 10, payload={"x": "y" * 250_000})
    sizes = []
    for page in pages(gateway, include="payload"):
        sizes.append(len(page))
        assert len(json.dumps(page)) <= limits.PAGE_BYTES
    assert sum(sizes) == 20
    assert len(sizes) > 1


def test_what_is_long_over_is_forgotten(gateway: Gateway) -> None:
    made = kill(gateway, ("E", "m"), ("F", "m"))
    gateway.post(f"{LIST}/{made[0]}/resolve", {"action": "discard"})
    folded(gateway)
    gateway.sql("update tidemill.error_groups set last_seen_at = now() - interval '31 days', first_seen_at = now() - interval '31 days'")
    gateway.sql("update tidemill.error_group_hours set hour = hour - interval '3 days'")
    folded(gateway)
    assert gateway.sql("select error_class from tidemill.error_groups") == [("F",)]
    assert gateway.sql("select count(*) from tidemill.error_group_hours") == [(0,)]
    assert sum(groups(gateway)[0]["last_24_h"]) == 0
