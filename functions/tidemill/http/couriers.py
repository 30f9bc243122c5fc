"""The scheduler's other door: a courier asks for calls of webhooks and reports how others went. Loads no pydantic."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tidemill.courier.rounds import AT_ONCE, reports_of
from tidemill.engine.webhooks import report, take
from tidemill.store.database import Database
from tidemill.store.postgres import PostgresStore


def served(database: Database, asked: Mapping[str, Any]) -> dict[str, Any]:
    """`{"calls": […], "counts": {…}}`: the calls are signed and under leases; the counts say what became of those reported.

    Never logged: a call's address may be a secret of its owner.
    """
    reports, most = reports_of(asked), min(int(asked.get("take", 0)), AT_ONCE)

    def reported(store: PostgresStore) -> Mapping[str, int]:
        return report(store, reports, roll=random.random)

    counts = database.run(reported) if reports else {}
    calls = database.run(lambda store: take(store, str(asked["id"]), limit=most)) if most > 0 else []
    return {"calls": [call._asdict() for call in calls], "counts": dict(counts)}
