"""What every group of calls is made of; `Client` fulfils it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

Thing = Mapping[str, Any]
"""A JSON object as the API sent it."""


class Calls(ABC):
    """Sends requests as the client's key, with its retries."""

    @abstractmethod
    def _send(self, method: str, path: str, body: Any = None, *, params: Mapping[str, Any] | None = None, repeatable: bool = True) -> Any:
        """The answer's JSON. `repeatable`: it may be sent again after a lost answer."""

    @abstractmethod
    def _pages(self, path: str, query: Mapping[str, Any]) -> Iterator[Any]:
        """The items of all pages of a list."""

    @abstractmethod
    def _give_key(self, job: dict[str, Any]) -> str | None:
        """Gives the job an idempotency key if it has none; the key given."""
