"""One real `tidemill dev` for the tests of this folder, without worker and without a folder that stays.

dev         its first project, with what it printed; modules that need it in another way start their own
own_project the same with a project of the module's own
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from harness.dev import Dev
from harness.tenants import tenant
from harness.visited import Visited


@contextmanager
def begun() -> Iterator[Dev]:
    with Dev("--ephemeral", "--port", "0", "--no-worker") as running:
        yield running.ready()


SHARED = Visited(Path(__file__).parent, begun)
pytest_runtest_teardown = SHARED.teardown
pytest_sessionfinish = SHARED.finish


@pytest.fixture(scope="module")
def dev() -> Dev:
    return SHARED.get()


@pytest.fixture(scope="module")
def own_project() -> Dev:
    made, seen = tenant(SHARED.get().dsn), copy.copy(SHARED.get())
    seen.about = {**seen.about, "api_key": made.api_key, "project_id": made.project_id}
    return seen


@pytest.fixture
def api(dev: Dev) -> Iterator[httpx.Client]:
    with dev.client() as client:
        yield client
