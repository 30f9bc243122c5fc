"""Statistics over HTTP: overview, history, latency, job types, a queue's figures and its partitions."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from api.gateway import Gateway
from harness.databases import Databases
from harness.mill import Mill
from tidemill.engine.fold import Folding, sample
from tidemill.store.database import connect


@pytest.fixture(scope="module")
def databases(quiet_databases: Databases) -> Databases:
    """What is counted waits until all transactions of the server that may still add to it are over."""
    return quiet_databases


S = timedelta(seconds=1)
M = timedelta(minutes=1)


def now() -> datetime:
    return datetime.now(UTC)


def then() -> datetime:
    """A whole minute that is counted, and within the last five."""
    return now().replace(second=0, microsecond=0) - 2 * M


@pytest.fixture
def mill(gateway: Gateway) -> Iterator[Mill]:
    made = Mill(gateway.dsn, connect(gateway.dsn), gateway.project_id)
    yield made
    made.close()


def fold(mill: Mill) -> None:
    folding = Folding(mill.store)
    folding.mark()
    while folding.step().get("more"):
        pass
    sample(mill.store)


def work(mill: Mill, at: datetime | None = None) -> None:
    """Six jobs four minutes ago: three completed after a second of waiting and two of running, one to be retried, one dead, one left."""
    at = at or then()
    mill.enqueue_all([{"job_type": "a"}] * 3 + [{"job_type": "b"}] * 3, now=at)
    jobs = mill.claim(5, now=at + S)
    for job in jobs[:3]:
        mill.complete(job, now=at + 3 * S)
    mill.fail(jobs[3], now=at + 3 * S)
    mill.fail(jobs[4], retryable=False, now=at + 3 * S)


def exact(count: int) -> dict[str, Any]:
    return {"count": count, "approximate": False}


def test_overview_tells_what_the_first_screen_needs(gateway: Gateway, mill: Mill) -> None:
    work(mill)
    fold(mill)
    gateway.post("/v1/queues", {"name": "idle", "is_paused": True})
    gateway.post("/v1/workers", {"name": "w", "queues": ["default"], "max_concurrency": 7})
    seen = gateway.get("/v1/stats/overview").json
    states = {name: count["count"] for name, count in seen["states"].items() if count["count"]}
    assert states.pop("queued") + states.pop("scheduled", 0) == 2  # the retry's backoff may be over
    assert states == {"completed": 3, "dead_letter": 1}
    assert not any(count["approximate"] for count in seen["states"].values())
    assert (seen["live_workers"], seen["worker_slots"]) == (1, 7)
    assert seen["oldest_queued_age_ms"] >= 100_000
    assert (seen["failures_1h"], seen["dead_1h"]) == (2, 1)
    assert 0.020 <= seen["throughput"]["arrived_per_second"] <= 0.025
    assert 0.010 <= seen["throughput"]["completed_per_second"] <= 0.013
    assert seen["paused_queues"] == ["idle"]
    assert [(queue["name"], queue["dead_letter"]) for queue in seen["queues"]] == [("default", exact(1)), ("idle", exact(0))]
    assert seen["queues"][0]["completed_per_second"] == seen["throughput"]["completed_per_second"]


def test_overview_of_an_empty_project_is_all_zeros(gateway: Gateway) -> None:
    seen = gateway.get("/v1/stats/overview").json
    assert {count["count"] for count in seen["states"].values()} == {0}
    assert set(seen["states"]) == {
        "pending", "scheduled", "queued", "claimed", "running", "completed", "cancelled", "dead_letter", "quarantined",
    }  # fmt: skip
    assert seen["oldest_queued_age_ms"] is None


def test_history_has_every_bucket_and_gaps_are_zeros(gateway: Gateway, mill: Mill) -> None:
    work(mill)
    fold(mill)
    seen = gateway.get("/v1/stats/history", query={"since": (then() - 2 * M).isoformat()}).json
    buckets = {bucket.pop("at"): bucket for bucket in seen["buckets"]}
    assert len(buckets) >= 5
    assert list(buckets) == sorted(buckets)
    nothing = {"arrived": 0, "completed": 0, "failed": 0, "dead": 0}
    happened = [bucket for bucket in buckets.values() if bucket != nothing]
    assert happened == [{"arrived": 6, "completed": 3, "failed": 2, "dead": 1}]
    assert list(buckets.values())[2] == happened[0]


def test_history_in_hours_is_kept_for_longer(gateway: Gateway, mill: Mill) -> None:
    work(mill, now() - timedelta(days=20))
    fold(mill)
    old = (now() - timedelta(days=21)).isoformat()
    seen = gateway.get("/v1/stats/history", query={"since": old, "bucket_ms": 3_600_000, "queue": "default"}).json
    assert sum(bucket["arrived"] for bucket in seen["buckets"]) == 6
    refused = gateway.get("/v1/stats/history", query={"since": old, "bucket_ms": 1_800_000})
    assert refused.status == 422
    assert "whole hours" in refused.text


@pytest.mark.parametrize(
    "query",
    [{"bucket_ms": 59_999}, {"bucket_ms": 90_000}, {"since": "2020-01-01T00:00:00Z"}, {"since": "yesterday"}, {"bucket": 1}],
)
def test_history_refuses_what_it_cannot_show(gateway: Gateway, query: dict[str, Any]) -> None:
    assert gateway.get("/v1/stats/history", query=query).status == 422


def test_unknown_queue_is_not_found(gateway: Gateway) -> None:
    for path in ("/v1/stats/history?queue=x", "/v1/stats/latency?queue=x", "/v1/queues/x/stats", "/v1/queues/x/partitions"):
        path, _, queue = path.partition("?queue=")
        assert gateway.get(path, query={"queue": queue} if queue else None).status == 404
    assert gateway.request("PATCH", "/v1/queues/x/partitions/y", {"weight": 2}).status == 404


def test_latency_tells_waits_and_run_times_apart(gateway: Gateway, mill: Mill) -> None:
    work(mill)
    fold(mill)
    seen = gateway.get("/v1/stats/latency").json
    assert seen["queue_wait"]["count"] == seen["run_time"]["count"] == 5
    assert all(abs(seen["queue_wait"][name] - 1_000) <= 190 for name in ("p50_ms", "p95_ms", "p99_ms"))
    assert all(abs(seen["run_time"][name] - 2_000) <= 380 for name in ("p50_ms", "p95_ms", "p99_ms"))


def test_job_types_are_listed_page_by_page(gateway: Gateway, mill: Mill) -> None:
    work(mill)
    fold(mill)
    first = gateway.get("/v1/job-types", query={"limit": 1}).json
    second = gateway.get("/v1/job-types", query={"limit": 1, "cursor": first["next_cursor"]}).json
    assert [item["name"] for page in (first, second) for item in page["items"]] == ["a", "b"]
    assert second["next_cursor"] is None


def test_time_to_drain_is_null_while_as_much_arrives_as_leaves(gateway: Gateway, mill: Mill) -> None:
    work(mill)
    fold(mill)
    seen = gateway.get("/v1/queues/default/stats").json
    assert seen["arrived_per_second"] > seen["drained_per_second"] > 0
    assert seen["time_to_drain_ms"] is None
    mill.conn.execute("update tidemill.queue_counters set completed = 3005")
    seen = gateway.get("/v1/queues/default/stats").json
    left = seen["states"]["queued"]["count"]
    assert seen["time_to_drain_ms"] == round(left / (seen["drained_per_second"] - seen["arrived_per_second"]) * 1000)
    assert seen["memory_estimate_bytes"] > 0


def test_quiet_group_leaves_the_flood_out(gateway: Gateway, mill: Mill) -> None:
    mill.enqueue_all([{"partition_key": "flood"}] * 300, now=then())
    mill.enqueue_all([{"partition_key": name} for name in ("a", "b")], now=now() - 5 * S)
    seen = gateway.get("/v1/queues/default/stats").json
    assert seen["states"]["queued"]["count"] == 302
    assert seen["oldest_queued_age_ms"] >= 100_000
    quiet = seen["quiet"]
    assert (quiet["noisy"], quiet["partitions"], quiet["queued"]) == (["flood"], 2, exact(2))
    assert quiet["oldest_queued_age_ms"] < 60_000


def test_partitions_tell_what_waits_and_runs_before_and_after_the_first_claim(gateway: Gateway, mill: Mill) -> None:
    mill.enqueue_all([{"partition_key": "b"}] * 3 + [{"partition_key": "a"}] * 2 + [{}])
    waiting = {item["partition_key"]: item["waiting"]["count"] for item in gateway.get("/v1/queues/default/partitions").json["items"]}
    assert waiting == {"": 1, "a": 2, "b": 3}
    mill.claim(2)
    items = gateway.get("/v1/queues/default/partitions").json["items"]
    assert sum(item["running"] for item in items) == 2
    assert sum(item["waiting"]["count"] for item in items) == 4
    assert round(sum(item["share"] for item in items), 3) == 1.0
    first = gateway.get("/v1/queues/default/partitions", query={"limit": 2}).json
    rest = gateway.get("/v1/queues/default/partitions", query={"limit": 2, "cursor": first["next_cursor"]}).json
    assert [item["partition_key"] for item in first["items"] + rest["items"]] == ["", "a", "b"]


def test_weight_of_a_partition_decides_its_share(gateway: Gateway, mill: Mill) -> None:
    answer = gateway.request("PATCH", "/v1/queues/default/partitions/gold", {"weight": 3})
    assert answer.status == 200, answer.text
    assert answer.json["weight"] == 3
    mill.enqueue_all([{"partition_key": name} for name in ("gold", "tin") for _ in range(40)])
    items = {item["partition_key"]: item for item in gateway.get("/v1/queues/default/partitions").json["items"]}
    assert (items["gold"]["share"], items["tin"]["share"]) == (0.75, 0.25)
    taken = [job.job_id for _ in range(10) for job in mill.claim(4)]
    rows = mill.conn.execute("select count(*) from tidemill.jobs where partition_key = 'gold' and id = any(%s::uuid[])", [taken]).fetchone()
    assert rows == (30,)


def test_weight_waits_for_the_claim_that_is_at_the_queue(gateway: Gateway, mill: Mill) -> None:
    """The same lock as claims take, so that no claim ever meets a half-written partition."""
    mill.enqueue_all([{"partition_key": "p"}] * 2)
    other = mill.another()
    with other.conn.transaction():
        assert other.claim(1)
        with pytest.raises(psycopg.errors.QueryCanceled):
            with mill.conn.transaction():
                mill.conn.execute("select set_config('statement_timeout', '200', true)")
                mill.store.weigh_partition(mill.store.queue_id(mill.project_id, "default") or "", "p", 5)
    assert mill.store.weigh_partition(mill.store.queue_id(mill.project_id, "default") or "", "p", 5) == 1


@pytest.mark.parametrize("weight", [0, -1, 1_000_001, "3", None])
def test_weight_has_bounds(gateway: Gateway, weight: Any) -> None:
    assert gateway.request("PATCH", "/v1/queues/default/partitions/p", {"weight": weight}).status == 422


def test_partition_key_may_hold_anything_that_a_path_can_carry(gateway: Gateway) -> None:
    answer = gateway.request("PATCH", "/v1/queues/default/partitions/a%2Fb%20%C3%A4", {"weight": 2})
    assert answer.json["partition_key"] == "a/b ä"


def test_statistics_answer_304_while_nothing_changed(gateway: Gateway) -> None:
    for path in ("/v1/stats/overview", "/v1/stats/history", "/v1/stats/latency", "/v1/job-types", "/v1/queues/default/stats"):
        tag = gateway.get(path).headers["etag"]
        assert gateway.get(path, headers={"if-none-match": tag}).status == 304, path


def test_another_project_sees_nothing_of_it(gateway: Gateway, mill: Mill) -> None:
    work(mill)
    fold(mill)
    other = Gateway(gateway.dsn)
    try:
        assert other.get("/v1/job-types").json["items"] == []
        assert other.get("/v1/stats/latency").json["run_time"]["count"] == 0
        assert other.get("/v1/stats/overview").json["states"]["completed"] == exact(0)
        assert {bucket["arrived"] for bucket in other.get("/v1/stats/history").json["buckets"]} == {0}
    finally:
        other.close()


def test_metrics_are_prometheus_text_with_what_the_statistics_say(gateway: Gateway, mill: Mill) -> None:
    work(mill)
    fold(mill)
    answer = gateway.get("/v1/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert values['tidemill_jobs{state="completed"}'] == "3"
    assert values['tidemill_jobs_arrived_total{queue="default"}'] == "6"
    assert values['tidemill_attempts_failed_total{queue="default"}'] == "2"
    assert values['tidemill_queue_jobs{queue="default",state="dead_letter"}'] == "1"
    assert float(values['tidemill_queue_oldest_seconds{queue="default"}']) >= 100
    assert values["tidemill_live_workers"] == "0"
    named = [line.split()[2] for line in answer.text.splitlines() if line.startswith("# TYPE")]
    assert len(named) == len(set(named))
    assert {re.split(r"[{ ]", line)[0] for line in answer.text.splitlines() if not line.startswith("#")} <= set(named)


def test_tick_prints_its_figures_as_metrics_of_the_stage(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    """The backlog among them: where nobody but callers ticks, it is what starts workers."""
    gateway.post("/v1/jobs", {"job_type": "t"})
    phases = {phase["name"]: phase for phase in gateway.post("/v1/tick").json["phases"]}
    assert phases["publish"]["counts"] == {"published": 1}
    figures, about = (json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line)
    assert (figures["Stage"], figures["QueuedJobs"], figures["Backlog"]) == ("test", 1, 1)
    assert about["TickErrors"] == 0
    gateway.post("/v1/tick")
    assert "_aws" not in capsys.readouterr().out
