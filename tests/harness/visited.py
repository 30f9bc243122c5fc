"""Something dear that the tests of a folder share, for as long as a process is busy with them: an idle instance takes 60 ms a second.

A folder's conftest.py makes one `Visited`, has its fixtures call `get()`, and says when a test was the last one for now:

    HERE = Visited(Path(__file__).parent, lambda: Dev("--ephemeral"))
    pytest_runtest_teardown = HERE.teardown
    pytest_sessionfinish = HERE.finish
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

T = TypeVar("T")


class Visited(Generic[T]):
    """What `make` makes, once for each time that a process comes to the folder."""

    def __init__(self, folder: Path, make: Callable[[], AbstractContextManager[T]]) -> None:
        self._folder, self._make, self._stack = folder, make, ExitStack()
        self._made: T | None = None

    def get(self) -> T:
        """It is there, or is made now."""
        if self._made is None:
            self._made = self._stack.enter_context(self._make())
        return self._made

    def end(self) -> None:
        """Nobody needs it for now."""
        self._made = None
        self._stack.close()

    @property
    def teardown(self) -> Any:
        """A hook of pytest: after the last test before one of another folder."""

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
            yield
            if nextitem is None or self._folder not in nextitem.path.parents:
                self.end()

        return pytest_runtest_teardown

    @property
    def finish(self) -> Any:
        """A hook of pytest: whatever stopped the run."""

        def pytest_sessionfinish() -> None:
            self.end()

        return pytest_sessionfinish
