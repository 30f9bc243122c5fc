"""A lease token that got into another project's hands opens nothing there, on any route that takes one."""

from collections.abc import Iterator
from typing import Any

import pytest

from api.gateway import Gateway

LINE = {"ts": "2027-01-01T00:00:00Z", "level": "info", "message": "m"}
REPORTS = [
    ("start", {}), ("progress", {"current": 1}), ("checkpoint", {"data": 1}), ("output", {"data": 1}), ("logs", {"lines": [LINE]}),
    ("children", {"jobs": [{"job_type": "c"}]}), ("parents", {}),
]  # fmt: skip

ROWS = """
    select (select jsonb_agg(to_jsonb(j) order by j.id) from tidemill.jobs j), (select jsonb_agg(l) from tidemill.job_leases l),
           (select jsonb_agg(x) from tidemill.job_executions x), (select jsonb_agg(g) from tidemill.job_logs g)
"""


@pytest.fixture
def stranger(database: str) -> Iterator[Gateway]:
    made = Gateway(database)
    yield made
    made.close()


@pytest.fixture
def leased(gateway: Gateway) -> dict[str, Any]:
    gateway.enqueue()
    (job,) = gateway.claim(gateway.worker())
    return job


@pytest.mark.parametrize(("verb", "body"), REPORTS)
def test_a_report_with_another_projects_token_is_not_found_and_writes_nothing(
    gateway: Gateway, stranger: Gateway, leased: dict[str, Any], verb: str, body: dict[str, Any]
) -> None:
    before = gateway.sql(ROWS)
    for job_id in (leased["id"], leased["id"].upper()):
        reply = stranger.post(f"/v1/jobs/{job_id}/{verb}", {"lease_token": leased["lease_token"], **body})
        assert (reply.status, reply.json["code"]) == (404, "not_found"), reply.text
    assert gateway.sql(ROWS) == before


@pytest.mark.parametrize("outcome", ["complete", "release", "cancelled", "crash"])
def test_an_ack_with_another_projects_token_is_lease_lost_and_its_neighbours_are_applied(
    gateway: Gateway, stranger: Gateway, leased: dict[str, Any], outcome: str
) -> None:
    stranger.enqueue()
    (own,) = stranger.claim(stranger.worker())
    foreign = {"job_id": leased["id"], "lease_token": leased["lease_token"], "outcome": outcome}
    upper = {**foreign, "job_id": leased["id"].upper()}
    before = gateway.sql("select jsonb_agg(l) from tidemill.job_leases l where l.job_id = %s", [leased["id"]])

    mine = {"job_id": own["id"], "lease_token": own["lease_token"], "outcome": "complete"}
    results = stranger.post("/v1/acks", {"acks": [foreign, mine, upper]}).json["results"]
    assert [result["status"] for result in results] == ["lease_lost", "ok", "lease_lost"]
    assert gateway.sql("select jsonb_agg(l) from tidemill.job_leases l where l.job_id = %s", [leased["id"]]) == before
    assert gateway.ack(leased, "complete")["status"] == "ok"
    again = stranger.post("/v1/acks", {"acks": [foreign]}).json["results"][0]
    assert (again["status"], again["state"]) == ("lease_lost", None), "nor does a repeat tell how it ended"


def test_another_projects_lease_is_lost_to_heartbeat_and_exchange(gateway: Gateway, stranger: Gateway, leased: dict[str, Any]) -> None:
    before = gateway.sql(ROWS)
    lease = {"job_id": leased["id"], "lease_token": leased["lease_token"]}
    worker = stranger.worker()
    beat = stranger.post(f"/v1/workers/{worker}/heartbeat", {"leases": [lease]}).json
    assert (beat["lost"], beat["leases"]) == ([leased["id"]], [])
    both = stranger.post("/v1/exchange", {"worker_id": worker, "heartbeat": {"leases": [lease]}}).json
    assert (both["heartbeat"]["lost"], both["heartbeat"]["leases"]) == ([leased["id"]], [])
    acked = stranger.post("/v1/exchange", {"worker_id": worker, "acks": [{**lease, "outcome": "complete"}]}).json
    assert acked["acks"][0]["status"] == "lease_lost"
    assert gateway.sql(ROWS) == before
