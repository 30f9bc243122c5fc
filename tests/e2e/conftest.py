"""One real `tidemill dev` for the tests of this folder, without worker and without a folder that stays.

dev         its first project, with what it printed; modules that need it in another way start their own
own_project the same with a project of the module's own
"""

import copy
from collections.abc import Iterator

import httpx
import pytest

from harness.dev import Dev
from harness.tenants import tenant


@pytest.fixture(scope="session")
def shared_dev() -> Iterator[Dev]:
    with Dev("--ephemeral", "--port", "0", "--no-worker") as running:
        yield running.ready()


@pytest.fixture(scope="module")
def dev(shared_dev: Dev) -> Dev:
    return shared_dev


@pytest.fixture(scope="module")
def own_project(shared_dev: Dev) -> Dev:
    made, seen = tenant(shared_dev.dsn), copy.copy(shared_dev)
    seen.about = {**shared_dev.about, "api_key": made.api_key, "project_id": made.project_id}
    return seen


@pytest.fixture
def api(dev: Dev) -> Iterator[httpx.Client]:
    with dev.client() as client:
        yield client
