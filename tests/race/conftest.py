"""mill: a project on a database of the test's own, and one worker's connection to it (harness.mill)."""

from collections.abc import Iterator

import pytest

from harness.mill import Mill, opened


@pytest.fixture
def mill(database: str) -> Iterator[Mill]:
    with opened(database) as made:
        yield made
