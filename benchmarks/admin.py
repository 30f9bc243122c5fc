"""Every GET of the admin API, with every filter, over a full database: how long its handler takes, and what it costs.

The database is filled by one statement per kind, as for the tests (tests/harness/million.py); the handlers run in this process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import psutil

from benchmarks.full import full_base
from benchmarks.measure import Size
from benchmarks.results import Row
from tidemill.http import routes
from tidemill.local import postgres

TIMES: Final = 30
AIM_MS: Final = 150
SHOWN: Final = 40


@dataclass
class Asked:
    """One request, asked several times: times in ms."""

    name: str
    took: list[float]
    cpu_ms: float

    @property
    def p95(self) -> float:
        """The time within which nineteen of twenty were answered."""
        return statistics.quantiles(self.took, n=20, method="inclusive")[18]


def admin_rows(running: postgres.Server, size: Size, say: Callable[[str], None]) -> list[Row]:
    """Handler time of each request, the slowest p95 first."""
    base = full_base(running, size.others, say)
    from api.gateway import Gateway, add_key
    from harness.gets import KEY, everything
    from harness.million import PROJECT

    times = TIMES if size.jobs >= 20_000 else TIMES // 6
    gateway = Gateway(base.dsn, project=(PROJECT, add_key(base.dsn, PROJECT, *KEY)))
    asked = [_ask(gateway, name, times, *request) for name, request in everything(gateway).items()]
    gateway.close()
    asked.sort(key=lambda one: -one.p95)
    over = [one.name for one in asked if one.p95 > AIM_MS]
    say(f"{len(asked)} requests, {len(over)} over {AIM_MS} ms at p95, the slowest {asked[0].p95:.0f} ms")
    return [Row("admin", one.name, "ms", one.took, note=f"p95 {one.p95:.1f} ms, processor {one.cpu_ms:.1f} ms") for one in asked[:SHOWN]]


def _ask(gateway: Any, name: str, times: int, path: str, query: dict[str, Any]) -> Asked:
    gateway.get(path, query=query)
    conn = gateway.app(routes.function_of("GET", path))._dispatcher.database._conn  # noqa: SLF001 - whose processor time it is
    server, ours = psutil.Process(conn.info.backend_pid) if conn is not None else None, psutil.Process()

    def used() -> float:
        spent = [one.cpu_times() for one in (server, ours) if one is not None]
        return sum(one.user + one.system for one in spent) * 1_000

    took, before = [], used()
    for _ in range(times):
        began = time.perf_counter()
        reply = gateway.get(path, query=query)
        took.append((time.perf_counter() - began) * 1_000)
        assert reply.status == 200, (path, query, reply.text)
    return Asked(name, took, (used() - before) / times)
