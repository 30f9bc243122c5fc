"""Duties: what cannot wait for the scheduler's next pass. Workers do them every second where they are asked to (`--tick`)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tidemill.engine.fire import Firing
from tidemill.engine.reap import reap
from tidemill.engine.schedule_store import ScheduleStore
from tidemill.ports import Rolls

STEPS: Final = 20
LEASES: Final = 100


def duties(store: ScheduleStore, *, roll: Rolls, now: datetime | None = None) -> int:
    """Fires the schedules whose instant has come, so that those that look at a predecessor begin on their second, and ends leases that
    have run out. How many jobs came of it. Any number may do it at once, as passes do; nothing due costs two looks into an index.
    """
    fired = 0
    if store.any_schedule_due(now=now):
        firing = Firing(store, roll=roll, now=now)
        for _ in range(STEPS):
            counts = firing.step()
            fired += counts["fired"]
            if not counts["more"]:
                break
    return fired + reap(store, limit=LEASES, roll=roll, now=now).retried
