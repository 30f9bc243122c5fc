"""Chance, from outside."""

from __future__ import annotations

from typing import Protocol


class Rolls(Protocol):
    """Chance, handed in so that the domain has none: uniform in [0, 1)."""

    def __call__(self) -> float:
        """The next draw."""
