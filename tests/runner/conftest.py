"""A mill of the test's own for every worker test."""

from collections.abc import Iterator

import pytest

from harness.mill import Mill, opened


@pytest.fixture
def mill(database: str) -> Iterator[Mill]:
    with opened(database) as mill:
        yield mill
