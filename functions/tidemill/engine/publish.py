"""Publish: the figures of all projects go to whoever watches, once a minute, by one of the passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from tidemill.domain.figures import Figures
from tidemill.engine.number_store import NumberStore

Tell = Callable[[Figures], None]


def publish(store: NumberStore, tell: Tell, *, now: datetime | None = None) -> Mapping[str, int]:
    """Tells the figures if it is time and no other pass has told them: each counted minute is in them once."""
    figures = store.take_figures(now=now)
    if figures is None:
        return {"published": 0}
    tell(figures)
    return {"published": 1}
