"""The same loop over HTTPS: a whole local instance, an outage of the API in the middle, and the end by signal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.instance import Instance, running
from harness.mill import Mill
from harness.outage import Proxy
from harness.working import WorkerProcess, eventually
from tidemill.store.database import connect

JOBS = 120


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with (tmp_path_factory.mktemp("instance") / "log").open("wb") as log, running(log) as instance:
        yield instance


@pytest.fixture
def mill(instance: Instance) -> Iterator[Mill]:
    made = Mill(instance.dsn, connect(instance.dsn), instance.project_id)
    try:
        yield made
    finally:
        made.close()


def over_http(mill: Mill, instance: Instance, url: str, *options: str) -> WorkerProcess:
    environment = {"TIDEMILL_URL": url, "TIDEMILL_API_KEY": instance.api_key}
    return WorkerProcess(mill, "--source", "http", "--stop-window-secs", "6", *options, environment=environment)


def completed(mill: Mill, ids: list[str]) -> int:
    row = mill.conn.execute(
        "select count(*) from tidemill.job_executions where status = 'completed' and job_id = any(%s::uuid[])", [ids]
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_an_outage_of_the_api_loses_nothing_and_repeats_no_acked_job(mill: Mill, instance: Instance, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    spec = {"job_type": "once", "payload": {"trace": str(trace)}}
    ids = [str(made.job_id) for made in mill.enqueue_all([spec] * JOBS)]
    with Proxy(instance.url) as proxy, over_http(mill, instance, proxy.url, "--concurrency", "4") as worker:
        eventually(lambda: completed(mill, ids) >= 10)
        proxy.is_down = True
        assert proxy.refused.wait(120)
        ids += [str(made.job_id) for made in mill.enqueue_all([spec] * 20)]
        proxy.is_down = False
        eventually(lambda: completed(mill, ids) == JOBS + 20, 60)
        worker.signal()
        assert worker.ended() == 0
    assert Counter(trace.read_text().split()) == dict.fromkeys(ids, 1)


def test_a_worker_over_http_gives_back_what_it_cannot_finish(mill: Mill, instance: Instance, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    job_id = mill.new(job_type="hold", payload={"trace": str(trace)})
    with over_http(mill, instance, instance.url) as worker:
        eventually(trace.exists)
        worker.signal()
        assert worker.ended() == 0
    assert mill.state(job_id) == "queued"
    assert mill.view(job_id)["attempt_count"] == 0
    mill.conn.execute("select 1")
    mill.complete(mill.claim_job(job_id))


def test_a_wrong_key_is_one_clear_line_and_exit_2(mill: Mill, instance: Instance) -> None:
    wrong = instance.api_key[:-4] + "xxxx"
    environment = {"TIDEMILL_URL": instance.url, "TIDEMILL_API_KEY": wrong}
    with WorkerProcess(mill, "--source", "http", environment=environment) as worker:
        assert worker.ended() == 2
    assert len(worker.words) == 1, worker.words
    assert wrong not in worker.words[0]
