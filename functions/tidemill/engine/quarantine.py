"""Quarantine: what an operator does with jobs that are set aside, and the scheduler's share of it.

A release or discard begins in the operator's request and goes on in bounded steps in every scheduler pass; each step is one
transaction, remembers where it stopped, and may be made by anybody. A fingerprint under release is not quarantined any more,
so what is enqueued or claimed meanwhile passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from tidemill.domain.errors import NotFound
from tidemill.domain.losses import OpenQuarantine
from tidemill.domain.transitions import State
from tidemill.engine.family import End, after_end
from tidemill.engine.losses import WINDOW_MS, set_aside
from tidemill.engine.quarantine_store import QuarantineStore

Verb = Literal["release", "discard"]
AT_ONCE: Final = 1_000
STEP: Final = 2_000
FORGOTTEN: Final = 500
COUNTS: Final = {"release": "released", "discard": "discarded"}


def end_quarantine(store: QuarantineStore, project_id: str, fingerprint: str, verb: Verb, *, now: datetime | None = None) -> int:
    """Releases or discards the jobs that bear a fingerprint; how many of them moved at once (of the first 1,000). The rest follows
    in the scheduler's passes. NotFound if the project has no such quarantine.
    """
    with store.transaction():
        if store.ask_quarantine(project_id, fingerprint, verb) is None:
            raise NotFound("quarantine", fingerprint)
        found = store.open_quarantine(project_id, fingerprint)
        return _step(store, found, AT_ONCE, now)[0] if found and found.verb else 0


def sweep(store: QuarantineStore, *, limit: int = STEP, now: datetime | None = None) -> Mapping[str, int]:
    """One step for one fingerprint that needs it: jobs set aside, released or discarded, and whether there may be more to do."""
    with store.transaction():
        found = store.open_quarantine(None, None)
        if found is None:
            return {"forgotten": store.forget_losses(WINDOW_MS, FORGOTTEN, now=now), "more": 0}
        moved, went_on = _step(store, found, limit, now)
    return {COUNTS.get(found.verb or "", "set_aside"): moved, "more": int(went_on)}


def _step(store: QuarantineStore, found: OpenQuarantine, limit: int, now: datetime | None) -> tuple[int, bool]:
    """How many jobs moved, and whether the step brought the work forward (or nothing can be done before others commit)."""
    key = (found.project_id, found.fingerprint)
    if found.verb != "release" and not found.is_swept:
        aside = set_aside(store, *key, limit, now=now)
        if found.verb is None:
            return aside, True
    step = store.release_quarantined if found.verb == "release" else store.discard_quarantined
    done = step(*key, found.position, limit, now=now)
    gone = [End(job_id, State.CANCELLED, traits) for job_id, traits, is_cancelled in done.moved if is_cancelled]
    if gone:
        after_end(store, gone, now=now)
    is_through = done.walked < limit
    if not is_through:
        store.note_quarantine(*key, done.last, is_done=False)
    elif found.verb == "release":
        if not store.end_release(*key):
            store.note_quarantine(*key, None, is_done=False)  # from the start again: somebody has added one, or held one
            return len(done.moved), bool(done.moved)
    else:
        store.note_quarantine(*key, None, is_done=found.is_swept)
    return len(done.moved), True
