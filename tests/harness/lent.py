"""Databases that tests use one after the other, and connections that stay warm: new ones cost more than most tests do.

`Lender.lend()` gives a database as a clone is; `take_back()` empties it for the next test, or drops it when it is not sure to be as a
clone is: somebody is still connected, anything of the schema changed, the planner learnt something, or it has grown.
`take(dsn)` gives a connection as `store.database.connect` does, to such a database perhaps one whose backend has its caches filled;
`put(dsn, conn)` is its end. What a test sets in it, listens to or locks is gone with that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import Connection, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from tidemill.store.database import Database, connect
from tidemill.store.postgres import PostgresStore

if TYPE_CHECKING:
    from harness.databases import Databases

MOST_BYTES = 4_000_000
SPARES = 4  # of one role: a race's crowd does not stay
RESET = """
close all; reset session authorization; reset all; reset role; unlisten *; deallocate all;
discard temp; discard sequences; select pg_advisory_unlock_all()
"""
TABLES = "select relname from pg_class where relnamespace = 'tidemill'::regnamespace and relkind = 'r' order by 1"
SEQUENCES = "select setval(oid::regclass, 1, false) from pg_class where relnamespace = 'tidemill'::regnamespace and relkind = 'S'"
OURS = "oid >= 16384"  # the server's own functions, types and columns are thousands of rows, and no test touches them
CATALOGS = {
    "pg_class": OURS, "pg_attribute": "attrelid >= 16384", "pg_proc": OURS, "pg_type": OURS,
    "pg_attrdef": "true", "pg_constraint": "true", "pg_trigger": "true", "pg_namespace": "true", "pg_policy": "true",
}  # fmt: skip
# Changes with whatever a migration could change, with a VACUUM and with an ANALYZE.
SCHEMA = (
    "select (select array[count(*), sum(relpages), sum(reltuples)]::text from pg_class where oid >= 16384 and relkind in ('r', 'i')),"
    " (select count(*) from pg_statistic where starelid >= 16384), (select count(*) from pg_db_role_setting s"
    " join pg_database d on d.oid = s.setdatabase where d.datname = current_database()), "
    + ", ".join(f"(select array[count(*), sum(xmin::text::bigint)]::text from {table} where {rows})" for table, rows in CATALOGS.items())
)
BYTES = "select sum(pg_relation_size(oid)) from pg_class where oid >= 16384 and relkind = 'r'"  # its indexes grow with a table
# A backend goes on ending for some milliseconds after its client has left.
OTHERS = "select count(*) from pg_stat_activity where datname = current_database() and pid <> all(%s)"


@dataclass
class Lent:
    """A database of the lender: its own connection, what it looked like when it was new, and connections for tests."""

    dsn: str
    keeper: Connection[Any]
    schema: Any
    bytes: int
    spares: dict[str, list[Connection[Any]]] = field(default_factory=dict)

    def close(self) -> None:
        for conn in (self.keeper, *(conn for conns in self.spares.values() for conn in conns)):
            conn.close()


LENT: dict[str, Lent] = {}
"""By name, those that a test of this process has now."""


def take(dsn: str) -> Connection[Any]:
    """A connection to this database, as `connect(dsn)` gives it."""
    return spare(dsn) or connect(dsn)


def spare(dsn: str) -> Connection[Any] | None:
    """A warm connection, if there is one."""
    lent = LENT.get(_name(dsn))
    while lent is not None and lent.spares.get(dsn):
        conn = lent.spares[dsn].pop()
        with suppress(psycopg.Error):
            conn.execute("select 1")  # the test may have ended all backends
            return conn
        conn.close()
    return None


def put(dsn: str, conn: Connection[Any]) -> None:
    """Its user is done with it."""
    lent = LENT.get(_name(dsn))
    direct = lent is not None and dsn.startswith(lent.dsn)  # not by way of a pooler
    if lent is not None and direct and len(lent.spares.setdefault(dsn, [])) < SPARES and _is_like_new(conn):
        lent.spares[dsn].append(conn)
    else:
        conn.close()


def forget(dsn: str) -> None:
    """Whoever asks now gets a new connection: the database has been given other settings."""
    lent = LENT.get(_name(dsn))
    while lent is not None and lent.spares:
        for conn in lent.spares.popitem()[1]:
            conn.close()


@contextmanager
def connected(dsn: str) -> Iterator[Connection[Any]]:
    """A connection that is put back."""
    conn = take(dsn)
    try:
        yield conn
    finally:
        put(dsn, conn)


class Warm(Database):
    """A Database that begins with a warm connection, where there is one."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._lent = dsn
        if conn := spare(dsn):
            self._conn, self._store, self._used_at = conn, PostgresStore(conn), time.monotonic()

    def put_back(self) -> None:
        """Instead of `close`: its user is done with it."""
        conn, self._conn, self._store = self._conn, None, None
        if conn is not None:
            put(self._lent, conn)


class Lender:
    """Lends the databases of one test process."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases
        self._free: list[Lent] = []
        self._tables: list[str] = []
        self._seeds: dict[str, str] = {}

    def lend(self) -> str:
        """Connection URL of a migrated database with nothing in it."""
        lent = self._free.pop() if self._free else self._new()
        LENT[_name(lent.dsn)] = lent
        return lent.dsn

    def take_back(self, dsn: str) -> None:
        """The test is over."""
        lent = LENT.pop(_name(dsn))
        try:
            fits = self._is_emptied(lent)
        except psycopg.Error:  # the test ended the keeper, too, or took away what it looks at
            fits = False
        if fits:
            self._free.append(lent)
        else:
            self._end(lent)

    def close(self) -> None:
        """Nothing is lent any more."""
        while self._free:
            self._end(self._free.pop())

    def _new(self) -> Lent:
        dsn = self._databases.clone()
        keeper = psycopg.connect(dsn, autocommit=True)
        keeper.execute("set session_replication_role = replica")  # no order of tables, and no trigger; each change of it forgets all plans
        if not self._tables:
            self._tables = [name for (name,) in keeper.execute(TABLES)]
            for table in self._filled(keeper):
                self._seeds[table] = self._rows(keeper, table)
        schema, size = keeper.execute(SCHEMA).fetchone(), keeper.execute(BYTES).fetchone()
        assert size is not None
        return Lent(dsn, keeper, schema, size[0])

    def _end(self, lent: Lent) -> None:
        with suppress(psycopg.Error):
            lent.close()
        self._databases.drop(lent.dsn)

    def _is_emptied(self, lent: Lent) -> bool:
        keeper = lent.keeper
        if not self._is_alone(lent) or keeper.execute(SCHEMA, prepare=True).fetchone() != lent.schema:
            return False
        statements = [sql.SQL("delete from tidemill.{}").format(sql.Identifier(table)) for table in self._filled(keeper)]
        with keeper.transaction():
            for table, rows in self._seeds.items():
                if self._rows(keeper, table) != rows:
                    name = sql.Identifier(table)
                    keeper.execute(sql.SQL("delete from tidemill.{}").format(name))
                    back = "insert into tidemill.{} overriding system value select * from jsonb_populate_recordset(null::tidemill.{}, {})"
                    keeper.execute(sql.SQL(back).format(name, name, rows))
            if statements:
                keeper.execute(sql.SQL(";").join(statements))
        keeper.execute(SEQUENCES, prepare=True)
        size = keeper.execute(BYTES, prepare=True).fetchone()
        return size is not None and size[0] - lent.bytes < MOST_BYTES

    def _is_alone(self, lent: Lent) -> bool:
        ours = [lent.keeper.info.backend_pid, *(conn.info.backend_pid for conns in lent.spares.values() for conn in conns)]
        for _ in range(100):
            row = lent.keeper.execute(OTHERS, [ours], prepare=True).fetchone()
            if row == (0,):
                return True
            lent.keeper.execute("select pg_sleep(0.002)")
        return False

    def _filled(self, conn: Connection[Any]) -> list[str]:
        """The tables with a row in them, but for those that a new database has rows in."""
        looks = (f"(select '{table}' from tidemill.{table} limit 1)" for table in self._tables if table not in self._seeds)
        return [name for (name,) in conn.execute(" union all ".join(looks), prepare=True)]

    def _rows(self, conn: Connection[Any], table: str) -> str:
        row = conn.execute(f"select jsonb_agg(t order by t) from tidemill.{table} t", prepare=True).fetchone()
        assert row is not None
        return json.dumps(row[0])


def _is_like_new(conn: Connection[Any]) -> bool:
    if conn.closed or conn.info.transaction_status != TransactionStatus.IDLE or not conn.autocommit:
        return False
    try:
        conn.execute(RESET)
    except psycopg.Error:
        return False
    return True


def _name(dsn: str) -> str:
    return str(conninfo_to_dict(dsn)["dbname"])
