"""A worker's own figures, and the dashboard that draws them together with the API's."""

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from harness.mill import Mill, until
from tidemill.runner.app import App
from tidemill.runner.metrics import MetricsServer, families
from tidemill.runner.options import WorkerOptions
from tidemill.runner.sources.postgres import PostgresSource
from tidemill.runner.worker import Worker

DOCS = Path(__file__).resolve().parents[2] / "docs"
DASHBOARD = DOCS / "grafana" / "tidemill.json"
DOCUMENT = DOCS / "operations-metrics.md"


def page(server: MetricsServer) -> dict[str, str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))


def a_worker(mill: Mill) -> Worker:
    app = App()

    @app.job("t")
    def t(ctx: object, payload: object) -> None:
        pass

    @app.job("bad", not_retryable=[ValueError])
    def bad(ctx: object, payload: object) -> None:
        raise ValueError("no")

    return Worker(app, PostgresSource(mill.dsn, mill.project_id), WorkerOptions(concurrency=3, name="w1"))


def test_worker_serves_what_it_has_done(mill: Mill) -> None:
    import threading

    mill.enqueue_all([{"job_type": "t"}] * 20 + [{"job_type": "bad"}])
    worker = a_worker(mill)
    server = MetricsServer(worker, 0)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        until(lambda: mill.count("job_executions") == 21)
        until(lambda: sum(worker.acker.ended.values()) == 21)
        seen = page(server)
    finally:
        worker.stop()
        thread.join(120)
        server.close()
    assert seen['tidemill_worker_attempts_total{outcome="complete"}'] == "20"
    assert seen['tidemill_worker_attempts_total{outcome="fail"}'] == "1"
    assert seen["tidemill_worker_slots"] == "3"
    assert seen["tidemill_worker_running"] == seen["tidemill_worker_held"] == "0"
    assert float(seen["process_resident_memory_bytes"]) > 1e6
    assert 'name="w1"' in next(key for key in seen if key.startswith("tidemill_worker_info"))


def test_port_answers_nothing_else_and_listens_on_this_machine_only(mill: Mill) -> None:
    server = MetricsServer(a_worker(mill), 0)
    try:
        assert server._server.server_address[0] == "127.0.0.1"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=60)
        assert refused.value.code == 404
        refused.value.close()
    finally:
        server.close()


def of_the_api(mill: Mill) -> set[str]:
    from api.gateway import Gateway

    gateway = Gateway(mill.dsn)
    try:
        lines = gateway.get("/v1/metrics").text.splitlines()
    finally:
        gateway.close()
    return {line.split()[2] for line in lines if line.startswith("# TYPE")}


def test_a_metrics_name_means_one_thing_and_the_documents_know_it(mill: Mill) -> None:
    """One name from the API and from a worker would be summed up by whoever scrapes both."""
    api, own = of_the_api(mill), {family.name for family in families(a_worker(mill))}
    assert api & own == set()
    told = set(re.findall(r"`(\w+)`", DOCUMENT.read_text(encoding="utf-8")))
    assert (api | own) - told == set()


def test_dashboard_explains_every_panel_and_names_only_metrics_that_exist(mill: Mill) -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    exist = of_the_api(mill) | {family.name for family in families(a_worker(mill))}
    for panel in board["panels"]:
        assert len(panel["description"]) > 60, panel["title"]
        assert panel["targets"]
        for target in panel["targets"]:
            named = set(re.findall(r"\b(?:tidemill|process)_\w+", target["expr"]))
            assert named
            assert named <= exist, panel["title"]


def test_dashboard_draws_every_metric_of_the_api(mill: Mill) -> None:
    drawn = set(re.findall(r"\btidemill_\w+", DASHBOARD.read_text(encoding="utf-8")))
    assert of_the_api(mill) - drawn == set()
