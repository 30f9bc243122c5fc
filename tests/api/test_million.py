"""With a million finished, 100,000 queued and 100,000 dead jobs every GET answers in its time, reads no table whole and pages through all.

Times are of processors (the handler's and the database's), so that a busy machine changes nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from api.gateway import Gateway, add_key
from harness.gets import KEY, everything
from harness.mill import until
from harness.million import Million
from tidemill.domain import limits
from tidemill.engine.dead_letters import fold
from tidemill.http import routes
from tidemill.store.database import Database

MOST_MS = 150
NONE_HERE = {"/v1/webhook"}
"""Of these the project has none, which is told at no less cost."""
TICKS = os.sysconf("SC_CLK_TCK")

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("million")]


@pytest.fixture(scope="module")
def big(million: Million) -> Iterator[Gateway]:
    key = add_key(million.dsn, million.project_id, *KEY)
    gateway = Gateway(million.dsn, project=(million.project_id, key))
    database = Database(million.dsn)
    while database.run(lambda store: fold(store, limit=500))["folded"]:
        pass
    database.close()
    yield gateway
    gateway.close()


def backend_ms(pid: int) -> float:
    """Processor time of a backend so far; of this process if the server is not of this machine."""
    stat = Path(f"/proc/{pid}/stat")
    fields = stat.read_text(encoding="ascii").rpartition(")")[2].split() if stat.exists() else ["0"] * 20
    return (int(fields[11]) + int(fields[12])) * 1000 / TICKS


def cost_ms(gateway: Gateway, path: str, query: dict[str, Any], *, times: int = 1) -> float:
    """Processor time of one request, of handler and database together, once everything is loaded and cached."""

    def ask() -> None:
        reply = gateway.get(path, query=query)
        assert reply.status == (404 if path in NONE_HERE else 200), (path, query, reply.text)

    ask()
    function = routes.function_of("GET", path)
    conn = gateway.app(function)._dispatcher.database._conn
    began = backend_ms(conn.info.backend_pid) + time.process_time() * 1000
    for _ in range(times):
        ask()
    return (backend_ms(conn.info.backend_pid) + time.process_time() * 1000 - began) / times


def test_every_get_answers_in_its_time_and_none_reads_the_jobs_whole(big: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    with psycopg.connect(big.dsn, autocommit=True) as conn:
        looks = (
            "select relname, seq_scan from pg_stat_user_tables where relname = any(array['jobs', 'job_executions', 'dead_letter_queue'])"
        )
        wanted = everything(big)
        for database in big.databases:
            database.close()
        conn.execute("select pg_stat_force_next_flush()")
        before = dict(conn.execute(looks).fetchall())
        costs = {name: cost_ms(big, path, query) for name, (path, query) in wanted.items() if path != "/v1/openapi.json"}
        for database in big.databases:
            database.close()  # their counters arrive when they end
        ours = b"select 1 from pg_stat_activity where application_name = 'tidemill' and datname = current_database()"
        until(lambda: not conn.execute(ours).fetchall())
        after = dict(conn.execute(looks).fetchall())
    with capsys.disabled():
        slowest = sorted(costs.items(), key=lambda item: -item[1])[:8]
        print("\n" + ", ".join(f"{name} {cost:.0f} ms" for name, cost in slowest), end=" ")
    assert after == before
    dear = {
        name: min(cost_ms(big, *wanted[name]) for _ in range(3)) for name, cost in costs.items() if cost > MOST_MS
    }  # a neighbour's doing?
    assert {name: cost for name, cost in dear.items() if cost > MOST_MS} == {}


def test_paging_through_a_hundred_thousand_gives_each_once_while_jobs_move(big: Gateway, million: Million) -> None:
    """Dead jobs of one type, every twentieth of 100,000."""
    query: dict[str, Any] = {"job_type": "type-7", "state": "dead_letter", "limit": 200}
    seen: list[str] = []
    cursor: dict[str, str] = {}
    pages = 0
    while True:
        reply = big.get("/v1/jobs", query=query | cursor)
        seen += [job["id"] for job in reply.json["items"]]
        pages += 1
        if pages == 3:
            newer = big.enqueue("type-7", queue="queue-7")
        if reply.json["next_cursor"] is None:
            break
        cursor = {"cursor": reply.json["next_cursor"]}
    try:
        assert len(seen) == len(set(seen)) == million.dead // 20
        assert newer not in seen
        assert pages <= million.dead // 20 // 200 + million.dead // limits.SCAN_ROWS + 2
    finally:
        assert big.request("DELETE", f"/v1/jobs/{newer}").status == 204
