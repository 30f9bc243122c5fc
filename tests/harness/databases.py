"""A database per test, cloned from one migrated template (about 20 ms on the embedded server), or lent again (harness.lent)."""

import itertools
import os
from collections import deque
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from harness.lent import Lender
from tidemill.store.migrate import migrate

# `drop database` sleeps 100 ms when it meets a backend that is just ending, so a database rests until its backends are gone.
RESTING = 4


@dataclass(frozen=True)
class Template:
    """The migrated database that all clones of a run come from, on the server of `dsn`."""

    dsn: str
    name: str


def make_template(dsn: str) -> Template:
    """A new migrated database on this server; its name is unlike any other run's."""
    template = Template(dsn, f"tidemill_test_{os.getpid()}_{os.urandom(3).hex()}")
    with _admin(dsn) as conn:
        conn.execute(sql.SQL("create database {}").format(sql.Identifier(template.name)))
        migrate(_dsn_of(dsn, template.name))
        conn.execute(sql.SQL("alter database {} with allow_connections false").format(sql.Identifier(template.name)))
    return template


def drop_template(template: Template) -> None:
    """Drop the template and what an interrupted test left of its clones."""
    with _admin(template.dsn) as conn:
        left = conn.execute("select datname from pg_database where starts_with(datname, %s)", [template.name]).fetchall()
        for (name,) in left:
            _drop(conn, name)


class Databases:
    """Makes and drops databases for one test process; `worker` keeps the processes' names apart."""

    def __init__(self, template: Template, worker: str, *, lends: bool = True) -> None:
        """lends False: what `lend` gives is always new."""
        self._template = template
        self._conn = _admin(template.dsn)
        self._names = (f"{template.name}_{worker}_{number}" for number in itertools.count(1))
        self._resting: deque[str] = deque()
        self._lender = Lender(self) if lends else None

    def lend(self) -> str:
        """Connection URL of a migrated database with nothing in it; another test may have used it."""
        return self._lender.lend() if self._lender else self.clone()

    def take_back(self, dsn: str) -> None:
        """What `lend` gave is not needed any more."""
        if self._lender:
            self._lender.take_back(dsn)
        else:
            self.drop(dsn)

    def clone(self) -> str:
        """Connection URL of a new migrated database."""
        return self._make(self._template.name)

    def copy(self, dsn: str) -> str:
        """Connection URL of a new database with all that this one has; nobody may be connected to it."""
        return self._make(str(conninfo_to_dict(dsn)["dbname"]))

    def empty(self) -> str:
        """Connection URL of a new database without a schema of ours."""
        return self._make("template0")

    def drop(self, dsn: str) -> None:
        """Send home whoever is still connected, and drop it a few databases later."""
        name = str(conninfo_to_dict(dsn)["dbname"])
        self._conn.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
        self._resting.append(name)
        self._drop_down_to(RESTING)

    def close(self) -> None:
        """Drop the rest, and end the connection that all this went over."""
        if self._lender:
            self._lender.close()
        self._drop_down_to(0)
        self._conn.close()

    def _drop_down_to(self, resting: int) -> None:
        while len(self._resting) > resting:
            _drop(self._conn, self._resting.popleft())

    def _make(self, source: str) -> str:
        name = next(self._names)
        statement = sql.SQL("create database {} template {} strategy file_copy")
        self._conn.execute(statement.format(sql.Identifier(name), sql.Identifier(source)))
        return _dsn_of(self._template.dsn, name)


def _admin(dsn: str) -> psycopg.Connection:
    return psycopg.connect(dsn, autocommit=True, prepare_threshold=None)


def _drop(conn: psycopg.Connection, name: str) -> None:
    conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def _dsn_of(dsn: str, database: str) -> str:
    return as_url(dsn, dbname=database)


def as_url(dsn: str, **changes: str) -> str:
    """This connection string, whichever form it has, as a URL with some parameters changed."""
    fields = {name: str(value) for name, value in {**conninfo_to_dict(dsn), **changes}.items()}
    user, password, host, port, database = (quote(fields.pop(name, ""), safe="") for name in ("user", "password", "host", "port", "dbname"))
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    query = f"?{urlencode(fields)}" if fields else ""
    return f"postgresql://{login}{host}{':' + port if port else ''}/{database}{query}"
