"""B076: several migrators at once, on an empty and on a filled database, one killed half-way, through a pooler."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
from psycopg import Connection

from harness.clock import allowed
from harness.databases import Databases
from harness.pooler import Pooler
from tidemill.local.schema_dump import dump
from tidemill.store.migrate import current_version, migrate
from tidemill.store.migration_files import default_folder

ROOT = Path(__file__).resolve().parents[2]
GATE = 76
"""Advisory lock key that a test holds to stop a migration exactly where it wants it."""

FIRST = "create table tidemill.thing (id bigint primary key, state text not null);\n"
SECOND = "alter table tidemill.thing add column weight integer not null default 1;\n"
INDEX = """-- tidemill: no-transaction
drop index concurrently if exists tidemill.thing_by_state;
create index concurrently thing_by_state on tidemill.thing (state);  -- a comment; with a semicolon
"""
GATED = f"""create table tidemill.half (id bigint);
select set_config('lock_timeout', '0', true);
select pg_advisory_xact_lock_shared({GATE});
create table tidemill.other_half (id bigint);
"""


def write(folder: Path, *texts: str) -> Path:
    for version, text in enumerate(texts, start=1):
        (folder / f"{version:04d}_test_step{version}.sql").write_text(text)
    return folder


def spawn(dsn: str, folder: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT / "functions"), str(ROOT / "tests")])
    command = [sys.executable, "-m", "harness.migrator", dsn, str(folder)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> list[int]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    versions: list[int] = json.loads(out)
    return versions


def recorded(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as conn:
        return [version for (version,) in conn.execute("select version from tidemill.schema_migrations order by version")]


def wait_for_gate(conn: Connection) -> None:
    """Until somebody stands before the gate."""
    waiting = "select count(*) from pg_locks where locktype = 'advisory' and objid = %s and not granted"
    deadline = time.monotonic() + 120
    while (row := conn.execute(waiting, [GATE]).fetchone()) and row[0] == 0:
        assert time.monotonic() < deadline, "the migration never reached its gate"


def test_b076_ten_migrators_on_an_empty_database_apply_each_migration_once(empty_database: str, databases: Databases) -> None:
    processes = [spawn(empty_database, default_folder()) for _ in range(10)]
    applied = [version for process in processes for version in finish(process)]

    assert sorted(applied) == recorded(empty_database)
    fresh = databases.clone()
    try:
        assert dump(empty_database) == dump(fresh)
    finally:
        databases.drop(fresh)


def test_b076_ten_migrators_through_a_transaction_pooler(empty_database: str, tmp_path: Path) -> None:
    folder = write(tmp_path, FIRST, SECOND, INDEX)
    with Pooler(empty_database, size=4) as pooler:
        processes = [spawn(pooler.dsn, folder) for _ in range(10)]
        applied = [version for process in processes for version in finish(process)]

    assert sorted(applied) == [1, 2, 3]
    assert pooler.violations == []


def test_b076_ten_migrators_on_a_filled_database_do_not_block_traffic(empty_database: str, tmp_path: Path) -> None:
    write(tmp_path, FIRST)
    migrate(empty_database, folder=tmp_path)
    with psycopg.connect(empty_database, autocommit=True) as conn:
        conn.execute("insert into tidemill.thing select id, 'queued' from generate_series(1, 200000) id")
    write(tmp_path, FIRST, SECOND, INDEX)
    traffic = Traffic(empty_database)

    with traffic:
        processes = [spawn(empty_database, tmp_path) for _ in range(10)]
        applied = [version for process in processes for version in finish(process)]

    assert sorted(applied) == [2, 3]
    print(f"{traffic.count} claims during the run, the longest {traffic.longest_s * 1000:.0f} ms")
    assert traffic.count > 0
    assert traffic.longest_s < allowed(2)
    with psycopg.connect(empty_database) as conn:
        valid = conn.execute("select indisvalid from pg_index where indexrelid = 'tidemill.thing_by_state'::regclass").fetchone()
    assert valid == (True,)


class Traffic:
    """Claims one row after another until it is told to stop; remembers how long the longest took."""

    def __init__(self, dsn: str) -> None:
        self.count, self.longest_s = 0, 0.0
        self._dsn = dsn
        self._stop, self._running = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._running.wait(120)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            while not self._stop.is_set():
                began = time.perf_counter()
                conn.execute(
                    "update tidemill.thing set state = 'claimed' where id ="
                    " (select id from tidemill.thing where id > %s order by id limit 1 for update skip locked)",
                    [self.count],
                )
                self.longest_s = max(self.longest_s, time.perf_counter() - began)
                self.count += 1
                self._running.set()


def test_b076_a_migrator_killed_half_way_leaves_the_old_version_and_the_next_continues(empty_database: str, tmp_path: Path) -> None:
    folder = write(tmp_path, FIRST, GATED, SECOND)
    with psycopg.connect(empty_database, autocommit=True) as conn:
        conn.execute("select pg_advisory_lock(%s)", [GATE])
        victim = spawn(empty_database, folder)
        wait_for_gate(conn)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        assert current_version(conn) == 1
        assert conn.execute("select to_regclass('tidemill.half')").fetchone() == (None,)
        conn.execute("select pg_advisory_unlock(%s)", [GATE])

    assert [migration.version for migration in migrate(empty_database, folder=folder)] == [2, 3]
    with psycopg.connect(empty_database) as conn:
        assert conn.execute("select count(*) from tidemill.other_half").fetchone() == (0,)


def test_b076_an_index_build_killed_half_way_is_built_again(empty_database: str, tmp_path: Path) -> None:
    write(tmp_path, FIRST)
    migrate(empty_database, folder=tmp_path)
    folder = write(tmp_path, FIRST, INDEX)
    with psycopg.connect(empty_database) as conn:
        conn.execute("insert into tidemill.thing values (1, 'queued')")  # an open transaction: the build waits for its end
        victim = spawn(empty_database, folder)
        with psycopg.connect(empty_database, autocommit=True) as look:
            deadline = time.monotonic() + 120
            while look.execute("select to_regclass('tidemill.thing_by_state')").fetchone() == (None,):
                assert time.monotonic() < deadline, "the index build never began"
            victim.send_signal(signal.SIGKILL)
            victim.communicate()
            assert current_version(look) == 1

    assert [migration.version for migration in migrate(empty_database, folder=folder)] == [2]
    with psycopg.connect(empty_database) as conn:
        valid = conn.execute("select indisvalid from pg_index where indexrelid = 'tidemill.thing_by_state'::regclass").fetchone()
    assert valid == (True,)


def test_b076_a_migration_steps_back_while_a_long_transaction_holds_its_table(empty_database: str, tmp_path: Path) -> None:
    write(tmp_path, FIRST)
    migrate(empty_database, folder=tmp_path)
    folder = write(tmp_path, FIRST, SECOND)
    with psycopg.connect(empty_database) as holder:
        holder.execute("select * from tidemill.thing")
        migrator = spawn(empty_database, folder)
        traffic = Traffic(empty_database)
        with traffic, psycopg.connect(empty_database, autocommit=True) as look:
            deadline = time.monotonic() + 120
            refused = "select count(*) from pg_locks where relation = 'tidemill.thing'::regclass and mode = 'AccessExclusiveLock'"
            while look.execute(refused).fetchone() == (0,):
                assert time.monotonic() < deadline, "the migration never asked for its lock"
            while look.execute(refused).fetchone() != (0,):
                assert time.monotonic() < deadline, "the migration never stepped back"
        holder.rollback()

    assert finish(migrator) == [2]
    assert traffic.longest_s < allowed(2)  # what queued up behind the waiting migration
