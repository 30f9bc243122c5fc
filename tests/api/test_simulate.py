"""A queue's last hour under other rules, over HTTP."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.gateway import Gateway
from harness.mill import Mill
from tidemill.store.database import connect

S = timedelta(seconds=1)


@pytest.fixture
def mill(gateway: Gateway) -> Iterator[Mill]:
    made = Mill(gateway.dsn, connect(gateway.dsn), gateway.project_id)
    yield made
    made.close()


@pytest.fixture
def busy(gateway: Gateway, mill: Mill) -> Gateway:
    """Ten minutes ago: sixty jobs of a second each from two tenants and a few of a third, worked off one after the other."""
    began = datetime.now(UTC) - timedelta(minutes=10)
    mill.enqueue_all([{"partition_key": name, "job_type": "mail"} for name in ["a", "b"] * 30], now=began)
    for second in range(60):
        (job,) = mill.claim(1, now=began + second * S)
        mill.complete(job, now=began + (second + 1) * S)
    return gateway


def simulated(gateway: Gateway, **body: Any) -> Any:
    answer = gateway.post("/v1/queues/default/simulate", body)
    assert answer.status == 200, answer.text
    return answer.json


def test_today_is_what_happened_and_more_places_shorten_the_wait(busy: Gateway) -> None:
    seen = simulated(busy, workers=4)
    assert (seen["now"]["places"], seen["proposed"]["places"]) == (1, 4)
    assert seen["now"]["jobs"] == 60
    assert seen["now"]["wait_p95_ms"] == 56_000
    assert seen["proposed"]["wait_p95_ms"] == 14_000
    assert not seen["approximate"]


def test_weight_moves_the_wait_from_one_partition_to_the_other(busy: Gateway) -> None:
    seen = simulated(busy, weights={"a": 5})
    now, then = ({part["partition_key"]: part["wait_p50_ms"] for part in seen[side]["partitions"]} for side in ("now", "proposed"))
    assert abs(now["a"] - now["b"]) <= 1_000
    assert then["a"] < now["a"] - 5_000 < now["b"] < then["b"]
    assert seen["now"]["total_wait_ms"] == seen["proposed"]["total_wait_ms"]


def test_limits_and_rates_make_it_wait(busy: Gateway) -> None:
    assert simulated(busy, workers=10, limits={"mail": 1})["proposed"]["wait_p95_ms"] == 56_000
    assert simulated(busy, max_concurrency=0)["proposed"]["unstarted"] == 60
    assert simulated(busy, workers=10, max_concurrency=2)["proposed"]["places"] == 2


def test_simulation_changes_nothing_and_leaves_no_note(busy: Gateway, mill: Mill) -> None:
    before = [mill.count(table) for table in ("jobs", "job_executions", "queue_partitions", "audit_log")]
    simulated(busy, weights={"a": 5})
    assert [mill.count(table) for table in ("jobs", "job_executions", "queue_partitions", "audit_log")] == before


def test_jobs_that_still_wait_are_taken_to_run_as_long_as_others_of_their_type(busy: Gateway, mill: Mill) -> None:
    mill.enqueue_all([{"partition_key": "c", "job_type": "mail"}] * 10)
    seen = simulated(busy)
    waits = {part["partition_key"]: part for part in seen["now"]["partitions"]}
    assert waits["c"]["jobs"] == 10
    assert 7_000 <= waits["c"]["wait_p95_ms"] <= 9_500


def test_empty_queue_has_nothing_to_wait_for(gateway: Gateway) -> None:
    seen = simulated(gateway)
    assert seen["now"]["jobs"] == 0
    assert seen["now"]["wait_p50_ms"] is None


@pytest.mark.parametrize(
    "body", [{"workers": 0}, {"weights": {"a": 0}}, {"rates": {"r": {"limit": 1}}}, {"limits": {"bad name": 1}}, {"nonsense": 1}]
)
def test_proposal_has_bounds(gateway: Gateway, body: dict[str, Any]) -> None:
    assert gateway.post("/v1/queues/default/simulate", body).status == 422


def test_unknown_queue_is_not_found(gateway: Gateway) -> None:
    assert gateway.post("/v1/queues/nothing/simulate", {}).status == 404
