"""B072, the worker's part: it outlives its connections, the server and itself; nothing acked is lost or done twice."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.jobs import PAUSE
from harness.mill import Mill, opened
from harness.working import WorkerProcess, eventually, working
from tidemill import App
from tidemill.domain.errors import Unavailable
from tidemill.domain.jobs import Ack, AckResult, ClaimedJob
from tidemill.local import postgres
from tidemill.runner import Context
from tidemill.runner.sources.postgres import PostgresSource
from tidemill.store.migrate import migrate


@pytest.fixture
def own(own_server: postgres.Server) -> Iterator[tuple[postgres.Server, Mill]]:
    migrate(own_server.dsn)
    with opened(own_server.dsn) as mill:
        yield own_server, mill


def cut(mill: Mill) -> int:
    """Ends every connection of workers to this database; how many."""
    row = mill.conn.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where datname = current_database() and application_name = 'tidemill-worker'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def completed(mill: Mill) -> int:
    row = mill.conn.execute("select count(distinct job_id) from tidemill.job_executions where status = 'completed'").fetchone()
    assert row is not None
    return int(row[0])


def counting(runs: Counter[str]) -> App:
    app = App()

    @app.job("t")
    def count(ctx: Context, payload: Any) -> None:
        runs[ctx.id] += 1
        PAUSE.wait(0.001)

    return app


def test_cut_connections_are_replaced_and_no_acked_job_runs_again(mill: Mill) -> None:
    runs: Counter[str] = Counter()
    mill.enqueue_all([{}] * 900)
    with working(mill, counting(runs)):
        for share in (100, 300, 500):
            eventually(lambda share=share: mill.count("job_executions") >= share)
            assert cut(mill) >= 2
        # A claim whose answer was cut off is given back, so all this ends without waiting for a lease (60 s) to run out.
        eventually(lambda: completed(mill) == 900)
    row = mill.conn.execute("select count(*) from tidemill.job_executions where status = 'completed'").fetchone()
    assert row == (900,)
    assert set(runs.values()) == {1}
    assert mill.misplaced() == []


def test_an_idle_worker_whose_connections_were_cut_takes_the_next_job(mill: Mill) -> None:
    runs: Counter[str] = Counter()
    with working(mill, counting(runs)):
        for _ in range(5):
            eventually(lambda: mill.count("queue_sleepers"))
            assert cut(mill) >= 1
            job_id = mill.new()
            eventually(lambda job_id=job_id: mill.state(job_id) == "completed")
    assert set(runs.values()) == {1}


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_a_worker_outlives_a_restart_of_the_database(own: tuple[postgres.Server, Mill], how: str, tmp_path: Path) -> None:
    server, mill = own
    trace = tmp_path / "t"
    before = [str(e.job_id) for e in mill.enqueue_all([{"job_type": "once", "payload": {"trace": str(trace)}}] * 300)]
    held = mill.new(job_type="hold", payload={"secs": 3, "trace": str(tmp_path / "held")})
    with WorkerProcess(mill, "--concurrency", "2") as worker:
        eventually(lambda: (tmp_path / "held").exists())
        if how == "crash":
            server.kill()
        server.restart()
        with opened_again(server, mill) as again:
            after = [str(e.job_id) for e in again.enqueue_all([{"job_type": "once", "payload": {"trace": str(trace)}}] * 50)]
            if how == "crash":  # claims that were not flushed are forgotten: such a job runs again, an acked one never
                again.conn.execute("update tidemill.job_leases set lease_expires_at = now() where worker_id <> %s", [again.worker_id])
                again.reap()
                again.conn.execute("update tidemill.jobs j set run_at = now() from tidemill.job_queue_entries e where e.job_id = j.id")
                again.conn.execute("update tidemill.job_queue_entries set run_at = now()")
            eventually(lambda: completed(again) == len([*before, *after, held]))
            worker.signal()
            assert worker.ended() == 0
            assert again.misplaced() == []
            rows = again.conn.execute("select count(*) from tidemill.job_executions where status = 'completed' group by job_id").fetchall()
    assert {row[0] for row in rows} == {1}
    if how == "restart":
        assert set(Counter(trace.read_text().split()).values()) == {1}


def opened_again(server: postgres.Server, mill: Mill) -> Any:
    """A mill on the same project over a fresh connection."""
    from contextlib import closing

    from tidemill.store.database import connect

    return closing(Mill(server.dsn, connect(server.dsn), mill.project_id))


def test_a_worker_killed_in_the_middle_loses_nothing(mill: Mill, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    ids = [str(e.job_id) for e in mill.enqueue_all([{"job_type": "once", "payload": {"trace": str(trace)}}] * 1_000)]
    with WorkerProcess(mill) as worker:
        eventually(lambda: mill.count("job_executions") >= 100)
        worker.signal(signal.SIGKILL)
        worker.ended()
    acked = {row[0] for row in mill.conn.execute("select job_id::text from tidemill.job_executions where status = 'completed'")}
    leased = [row[0] for row in mill.conn.execute("select job_id::text from tidemill.job_leases")]
    mill.lapse(*leased)
    while mill.reap().expired:
        pass
    for job_id in leased:
        mill.make_due(job_id)
    with WorkerProcess(mill) as heir:
        eventually(lambda: completed(mill) == 1_000)
        heir.signal()
        assert heir.ended() == 0
    ran = Counter(trace.read_text().split())
    assert all(ran[job_id] == 1 for job_id in acked)
    assert set(ran) == set(ids)
    assert mill.misplaced() == []


class Flaky(PostgresSource):
    """Answers get lost: `lose` says how many of the next acks, after they were applied, and of the next claims."""

    def __init__(self, mill: Mill) -> None:
        super().__init__(mill.dsn, mill.project_id)
        self.lost_acks = 0
        self.lost_claims = 0
        self.sent: list[tuple[str, int]] = []

    def settle(self, acks: Sequence[Ack]) -> list[AckResult]:
        self.sent += [(ack.job_id, ack.digest) for ack in acks]
        results = super().settle(acks)
        if self.lost_acks:
            self.lost_acks -= 1
            raise Unavailable("the answer was lost")
        assert all(result.status == "ok" for result in results)
        return results

    def claim(self, limit: int) -> list[ClaimedJob]:
        jobs = super().claim(limit)
        if jobs and self.lost_claims:
            self.lost_claims -= 1
            raise Unavailable("the answer was lost")
        return jobs


def test_an_ack_whose_answer_was_lost_is_sent_again_as_it_was(mill: Mill) -> None:
    runs: Counter[str] = Counter()
    source = Flaky(mill)
    source.lost_acks = 3
    job_id = mill.new()
    with working(mill, counting(runs), source) as worker:
        eventually(lambda: len(source.sent) == 4 and not worker.board.held)
    assert len(set(source.sent)) == 1
    assert runs == {job_id: 1}
    assert [x["status"] for x in mill.executions(job_id)] == ["completed"]


def test_jobs_of_a_claim_whose_answer_was_lost_are_given_back_and_run_at_once(mill: Mill) -> None:
    runs: Counter[str] = Counter()
    source = Flaky(mill)
    source.lost_claims = 1
    ids = [mill.new(max_attempts=1) for _ in range(3)]
    with working(mill, counting(runs), source) as worker:
        eventually(lambda: all(mill.state(job_id) == "completed" for job_id in ids))
        assert worker.lines.named("strays_released")[0]["jobs"] == 3
    assert all([x["status"] for x in mill.executions(job_id)] == ["released", "completed"] for job_id in ids)


def test_one_ack_that_the_database_refuses_does_not_hold_up_the_others(mill: Mill) -> None:
    app, gate = App(), threading.Event()

    @app.job("t")
    def work(ctx: Context, payload: Any) -> Any:
        assert gate.wait(120)
        return payload

    class Poisoned(PostgresSource):
        def settle(self, acks: Sequence[Ack]) -> list[AckResult]:
            bad = [ack.job_id for ack in acks if ack.result and "poison" in ack.result]
            if bad:
                acks = [ack if ack.job_id not in bad else Ack(ack.job_id, ack.lease_token, ack.event, 1, result="{no json") for ack in acks]
            return super().settle(acks)

    ids = [mill.new(payload={"n": n}) for n in range(3)]
    poison = mill.new(payload={"poison": True})
    with working(mill, app, Poisoned(mill.dsn, mill.project_id)):
        eventually(lambda: mill.state(poison) == "running")
        gate.set()
        eventually(lambda: all(mill.state(job_id) == "completed" for job_id in ids) and mill.state(poison) == "dead_letter")
    assert mill.view(poison)["error_class"] == "AckRefused"


def test_a_read_only_server_is_left_for_another_one(mill: Mill) -> None:
    """A failover leaves old connections on a server that only reads: SQLSTATE 25006 must discard them."""
    runs: Counter[str] = Counter()
    source = PostgresSource(mill.dsn, mill.project_id)
    with working(mill, counting(runs), source) as worker:
        eventually(lambda: mill.count("queue_sleepers"))
        for link in (source._claims, source._acks, source._beats):
            link.run(lambda store: store._conn.execute("set default_transaction_read_only = on"))
        job_id = mill.new()
        eventually(lambda: mill.state(job_id) == "completed")
        assert worker.lines.named("claim_failed")[0]["code"] == "unavailable"
    assert runs == {job_id: 1}
