"""How many jobs an operation would touch, and of what kind: bounded in time and rows, so that it may run within a request."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from tidemill.domain.operations import Tally
from tidemill.engine.operation_store import OperationStore

PATIENCE_SECS: Final = 1.5
"""After that no new look begins, and the count is a lower bound."""

PHASE_ROWS: Final = 25_000
ROWS: Final = 5_000


def tally(store: OperationStore, project_id: str, query: Mapping[str, Any]) -> Tally:
    """The jobs that match `query` (whose `state` is given), by kind."""
    found, deadline = Tally(), time.monotonic() + PATIENCE_SECS
    if store.counts_phases(query):
        for state in query["state"]:
            if not _phase(store, project_id, state, query, found, deadline):
                break
        return found
    after: str | None = None
    while True:
        ids, last = store.members(project_id, query, after=after, descending=True, limit=ROWS)
        for kind in store.kinds_of(project_id, ids) if ids else ():
            found.add(*kind)
        if last is None:
            return found
        after = last
        if time.monotonic() >= deadline:
            found.is_approximate = True
            return found


def _phase(store: OperationStore, project_id: str, state: str, query: Mapping[str, Any], found: Tally, deadline: float) -> bool:
    after: str | None = None
    while True:
        part = store.count_phase(project_id, state, query, after=after, limit=PHASE_ROWS)
        for job_type, error, count, example in part.kinds:
            found.add(state, job_type, error, count, example)
        if part.last is None:
            return True
        after = part.last
        if time.monotonic() >= deadline:
            found.is_approximate = True
            return False
