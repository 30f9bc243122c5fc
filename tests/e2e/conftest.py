"""One real `tidemill dev` per module of tests, without worker and without a folder that stays."""

from collections.abc import Iterator

import httpx
import pytest

from harness.dev import Dev


@pytest.fixture(scope="module")
def dev() -> Iterator[Dev]:
    with Dev("--ephemeral", "--port", "0", "--no-worker") as running:
        yield running.ready()


@pytest.fixture
def api(dev: Dev) -> Iterator[httpx.Client]:
    with dev.client() as client:
        yield client
