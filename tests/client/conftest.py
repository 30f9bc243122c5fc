"""A project with its default queue, and SQLAlchemy on the same database."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg import Connection
from sqlalchemy.orm import Session

from harness.dev import cli
from harness.instance import Instance, running
from harness.tenants import tenant
from harness.visited import Visited
from tidemill.client import Client
from tidemill.domain.jobs import ClaimedJob, ClaimRequest
from tidemill.engine.claim import claim
from tidemill.store.bootstrap import Founding, bootstrap
from tidemill.store.postgres import PostgresStore

WORKER = "01920000-0000-7000-8000-000000000001"


@pytest.fixture
def project(conn: Connection) -> str:
    return bootstrap(conn, Founding(email="owner@example.com", password_hash="-")).project_id


@pytest.fixture
def engine(database: str) -> Iterator[sqlalchemy.Engine]:
    made = sqlalchemy.create_engine(database.replace("postgresql://", "postgresql+psycopg://", 1))
    yield made
    made.dispose()


@pytest.fixture
def session(engine: sqlalchemy.Engine) -> Iterator[Session]:
    with Session(engine) as made:
        yield made


@pytest.fixture
def caller(database: str) -> Iterator[Connection]:
    """The application's own connection: psycopg's defaults, so a transaction begins with the first statement."""
    with psycopg.connect(database) as made:
        yield made
        made.rollback()


@pytest.fixture
def claimable(conn: Connection, project: str) -> Any:
    """What a worker gets at this moment, over a connection of its own."""

    def look() -> list[ClaimedJob]:
        return claim(PostgresStore(conn), ClaimRequest(project, WORKER, ["default"], 100))

    return look


@contextmanager
def begun() -> Iterator[Instance]:
    """The real thing, one for the tests of this folder."""
    with tempfile.TemporaryFile() as log, running(log) as made:
        yield made


SHARED = Visited(Path(__file__).parent, begun)
pytest_runtest_teardown = SHARED.teardown
pytest_sessionfinish = SHARED.finish


@pytest.fixture(scope="module")
def instance() -> Instance:
    """As if it were the module's own: with a project that nobody else has touched."""
    made = tenant(SHARED.get().dsn)
    return replace(SHARED.get(), api_key=made.api_key, project_id=made.project_id)


@pytest.fixture
def client(instance: Instance) -> Iterator[Client]:
    with Client(instance.url, instance.api_key) as made:
        yield made


@pytest.fixture
def say(instance: Instance) -> Callable[..., str]:
    """What a command prints in a terminal of 80 columns, with nobody to be asked; its exit code is as expected."""

    def run(*words: str, code: int = 0) -> str:
        done = cli(*words, TIDEMILL_URL=instance.url, TIDEMILL_API_KEY=instance.api_key, COLUMNS="80")
        assert done.returncode == code, done.stderr
        print(done.stdout + done.stderr)  # to be looked at with -s
        return done.stdout + done.stderr

    return run
