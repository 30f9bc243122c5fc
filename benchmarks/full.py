"""A project as it looks after a busy day, made once for all sections that ask it: tests/harness/million.py says what is in it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.rig import Base, make_base
from tidemill.engine.dead_letters import fold
from tidemill.local import postgres
from tidemill.store.database import connect
from tidemill.store.postgres import PostgresStore

_made: Final[dict[tuple[str, int], Base]] = {}


def full_base(running: postgres.Server, finished: int, say: Callable[[str], None]) -> Base:
    """So many finished, a tenth as many queued and a tenth as many dead jobs; statistics are fresh, dead letters grouped."""
    if (found := _made.get((running.dsn, finished))) is not None:
        return found
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from harness.million import seed

    base = make_base(running, "bench_full_day")
    with connect(base.dsn) as conn:
        conn.execute("truncate tidemill.organizations cascade")
        seed(conn, finished=finished, queued=finished // 10, dead=finished // 10)
    with connect(base.dsn) as conn:
        while fold(PostgresStore(conn), limit=500)["folded"]:
            pass
    say(f"{finished:,} finished, {finished // 10:,} queued and {finished // 10:,} dead jobs")
    return _made.setdefault((running.dsn, finished), base)
