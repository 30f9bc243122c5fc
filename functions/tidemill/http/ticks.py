"""One scheduler pass on demand. Loads no pydantic: the scheduler's Lambda serves it."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tidemill.engine.tick import tick as run_pass
from tidemill.http.operation import Answer, Call, operation
from tidemill.observe import emf
from tidemill.store.database import Database

RESERVE_MS = 3_000
"""What a pass leaves of the function's time."""


@operation()
def tick(call: Call) -> Answer:
    """Run one scheduler pass now; what each phase did."""
    report = passed(call.plain, min(20_000, call.tick_budget_ms, call.request.remaining_ms() - RESERVE_MS), call.stage)
    call.database.run(lambda _: call.note("project", call.project_id, action="tick", after=report))
    return Answer(report)


def passed(database: Database, budget_ms: int, stage: str) -> dict[str, Any]:
    """The phases of one pass: counts, kind of error, whether more is left. Its figures go to standard output as metrics of the stage."""

    def tell(values: Mapping[str, float]) -> None:
        print(emf.line(stage, values, at_ms=int(time.time() * 1000)), flush=True)

    began = time.monotonic()
    phases = database.run(
        lambda store: run_pass(
            store, roll=random.random, clock=time.monotonic, budget_ms=max(0, budget_ms), tell=lambda figures: tell(emf.of_figures(figures))
        )
    )
    if any(phase.error is not None or phase.counts.get("published") for phase in phases):
        tell(emf.of_pass(phases, int((time.monotonic() - began) * 1000)))
    return {"phases": [asdict(phase) for phase in phases]}
