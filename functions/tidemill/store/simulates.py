"""What a simulation starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidemill.store.base import Adapter

if TYPE_CHECKING:
    from tidemill.engine.simulate import CurrentRules, Recorded

KEPT: Final = 1_000


class Simulates(Adapter):
    """Implements engine.simulate.SimulateStore, with Stats."""

    def recorded(self, queue_id: str, *, ended: int, waiting: int) -> list[Recorded]:
        from tidemill.engine.simulate import Recorded  # loaded by who simulates, not with every function

        return [Recorded(*row) for row in self._rows("stats/recorded", {"queue_id": queue_id, "ended": ended, "waiting": waiting})]

    def current_rules(self, project_id: str, queue_id: str) -> CurrentRules:
        from tidemill.engine.simulate import CurrentRules

        row = self._row("stats/rules", {"project_id": project_id, "queue_id": queue_id, "limit": KEPT})
        if row is None:
            return CurrentRules(None, {}, {}, {})
        most, weights, limits, rates = row
        return CurrentRules(most, weights, limits, {name: (rate[0], rate[1], rate[2]) for name, rate in rates.items()})
