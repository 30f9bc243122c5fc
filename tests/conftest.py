"""Fixtures for every test. Nothing here starts a server before a test (or a second process of the run) needs one.

database        connection string of a migrated database of the test's own, with nothing in it; other tests may have used it before
new_database    the same, but surely as it was cloned, for tests of plans, pages and counters. A module takes them with
                `def database(new_database)`
conn            an autocommit connection to `database`
empty_database  connection string of a database that was never migrated
pooler          a transaction pooler before the test's database (`pooler.dsn`, `pooler.violations`)
databases       makes more of both
quiet_databases databases on a server of the process's own, for tests of what waits until everybody's transactions are over:
                on the shared one, another process that makes a database holds them up
million         a database with over a million jobs in it, shared by all tests of the process (harness.million)
own_server      an embedded server of the test's own, to restart and to kill
"""

import gc
from collections.abc import Generator, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import Connection

from harness import server as servers
from harness.databases import Databases, Template, drop_template, make_template
from harness.lent import connected
from harness.million import SHARE, Million, seed
from harness.pooler import Pooler
from tidemill.local import postgres

# The same examples in every run, however slow the machine is: a build fails for what the code does.
# `--hypothesis-profile=search` draws new ones.
settings.register_profile("steady", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", parent=settings.get_profile("steady"), derandomize=False, max_examples=1_000)
settings.load_profile("steady")


class Run:
    """Server and template of a run: made once, by the process the others come from."""

    def __init__(self, workerinput: dict[str, Any] | None) -> None:
        self.worker = workerinput["workerid"] if workerinput else "main"
        self._server: servers.TestServer | None = None
        self._template = Template(*workerinput["tidemill_template"]) if workerinput else None

    def template(self) -> Template:
        if self._template is None:
            self._server = servers.start()
            self._template = make_template(self._server.dsn)
        return self._template

    def stop(self) -> None:
        if self._server is not None:
            if self._template is not None:
                drop_template(self._template)
            self._server.stop()


RUN = pytest.StashKey[Run]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RUN] = Run(getattr(config, "workerinput", None))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    template = node.config.stash[RUN].template()
    node.workerinput["tidemill_template"] = (template.dsn, template.name)


LONG = (
    "tests/e2e", "tests/infra", "tests/frontend", "tests/wheel", "tests/api/test_memory.py", "tests/engine/test_any_history.py",
    "tests/runner/test_demo.py", "tests/runner/test_http_source.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first, folder by folder, so that no process is left alone with it at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded and made by the collection stays: to look through it for garbage again and again was half of its time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)  # templates, documents and their examples are millions of objects that live for a while
        gc.enable()


def pytest_report_header() -> str:
    return f"database: {servers.kind()}"


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].stop()


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest) -> Iterator[Databases]:
    run = request.config.stash[RUN]
    made = Databases(run.template(), run.worker)
    yield made
    made.close()


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    dsn = databases.lend()
    yield dsn
    databases.take_back(dsn)


@pytest.fixture
def new_database(databases: Databases) -> Iterator[str]:
    dsn = databases.clone()
    yield dsn
    databases.drop(dsn)


@pytest.fixture
def empty_database(databases: Databases) -> Iterator[str]:
    dsn = databases.empty()
    yield dsn
    databases.drop(dsn)


@pytest.fixture
def conn(database: str) -> Iterator[Connection]:
    with connected(database) as connection:
        yield connection


@pytest.fixture
def pooler(database: str) -> Iterator[Pooler]:
    with Pooler(database) as served:
        yield served


@pytest.fixture(scope="session")
def million(databases: Databases) -> Iterator[Million]:
    dsn = databases.clone()
    made = Million(dsn, finished=1_000_000 // SHARE, queued=100_000 // SHARE, dead=100_000 // SHARE)
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        seed(connection, finished=made.finished, queued=made.queued, dead=made.dead)
    yield made
    databases.drop(dsn)


@pytest.fixture(scope="session")
def quiet_databases() -> Iterator[Databases]:
    """Databases of which only the test itself has transactions open. A module takes them with a fixture `databases` of its own."""
    with postgres.start(None, settings={"autovacuum": "off"}, fsync=False) as server:
        made = Databases(make_template(server.dsn), "quiet", lends=False)
        yield made
        made.close()


@pytest.fixture
def own_server() -> Iterator[postgres.Server]:
    with postgres.start(None, fsync=False) as server:
        yield server
