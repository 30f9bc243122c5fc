"""mill: a project on a database of the test's own, and one worker's connection to it (harness.mill).

shared_mill: that of the module, for the many cases that are refused and so leave nothing behind.
"""

from collections.abc import Iterator

import pytest

from harness.databases import Databases
from harness.mill import Mill, opened


@pytest.fixture
def mill(database: str) -> Iterator[Mill]:
    with opened(database) as made:
        yield made


@pytest.fixture(scope="module")
def shared_mill(databases: Databases) -> Iterator[Mill]:
    with opened(databases.clone()) as made:
        yield made
    databases.drop(made.dsn)
