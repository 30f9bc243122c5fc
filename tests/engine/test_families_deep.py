"""A family too large for one transaction: the parent's end is committed, and the sweeps carry it to the last descendant."""

from __future__ import annotations

from typing import Any

import pytest

from harness.mill import Mill
from tidemill.engine import family
from tidemill.engine.dependants import sweep
from tidemill.engine.operate import cancel

DEPTH = 6


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round is all that a transaction has time for."""
    monkeypatch.setattr(family, "PATIENCE_SECS", 0.0)


def chain(mill: Mill, **head: Any) -> list[str]:
    ids = [mill.new(**head)]
    for _ in range(DEPTH):
        ids.append(mill.new(depends_on=[ids[-1]]))
    return ids


def states(mill: Mill, ids: list[str]) -> list[str]:
    return [mill.state(job_id) for job_id in ids]


def test_cancelling_the_head_of_a_deep_chain_is_committed_though_its_descendants_take_more_time(mill: Mill) -> None:
    ids = chain(mill, hold=True)
    cancel(mill.store, mill.project_id, ids[0], roll=mill.roll)
    assert states(mill, ids) == ["cancelled"] * 2 + ["pending"] * (DEPTH - 1)


def test_the_sweeps_carry_the_end_of_a_dead_job_to_the_last_descendant(mill: Mill) -> None:
    ids = chain(mill)
    mill.die(ids[0])
    reached = [states(mill, ids).count("cancelled")]
    while sweep(mill.store)["parents"]:
        reached.append(states(mill, ids).count("cancelled"))
    assert reached == list(range(1, DEPTH + 1)), "each pass gets further, and none does it twice"
    assert mill.misplaced() == []
