"""Bulk operations in tests: plan, apply and let the scheduler's phase run to its end."""

from __future__ import annotations

import time
import uuid
from datetime import datetime
from typing import Any

from harness.mill import Mill
from tidemill.domain.operations import Operation
from tidemill.engine import operations
from tidemill.engine.bulk import Bulk


def plan(mill: Mill, action: str, now: datetime | None = None, **query: Any) -> Operation:
    return operations.plan(mill.store, mill.project_id, str(uuid.uuid4()), action, query, now=now)


def begun(mill: Mill, action: str, now: datetime | None = None, *, allow_drift: bool = False, **query: Any) -> Operation:
    """A plan that is applied already; nothing of it is done yet. `allow_drift` where others change jobs meanwhile."""
    found = plan(mill, action, now, **query)
    return operations.apply(mill.store, mill.project_id, found.id, allow_drift=allow_drift, now=now)


def run(mill: Mill, now: datetime | None = None, *, size: int | None = None) -> None:
    """What the scheduler does, until there is no more to do."""
    bulk = Bulk(mill.store, clock=time.monotonic, now=now)
    for _ in range(10_000):
        if size is not None:
            bulk._size = size
        if not bulk.step()["more"]:
            return
    raise AssertionError("it does not come to an end")


def done(mill: Mill, action: str, now: datetime | None = None, *, allow_drift: bool = False, **query: Any) -> Operation:
    """An operation that has run."""
    found = begun(mill, action, now, allow_drift=allow_drift, **query)
    run(mill, now)
    return seen(mill, found)


def seen(mill: Mill, found: Operation) -> Operation:
    return operations.seen(mill.store, mill.project_id, found.id)
