"""What courier and scheduler say to each other, and the rounds of a courier: ask for calls, send them, bring back how they went."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from uuid import uuid4

from tidemill.domain.webhooks import Call, Report

AT_ONCE: Final = 16
"""Calls that one courier makes at the same time."""
Ask = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Courier:
    """One courier. `ask`: carries a question to the scheduler and returns its answer. `send`: makes a call; raises nothing."""

    def __init__(self, ask: Ask, send: Callable[[Call], Report]) -> None:
        self._ask, self._send = ask, send
        self.id = str(uuid4())

    def run(self, budget_s: float) -> Mapping[str, int]:
        """Rounds until there is nothing to send or the time is over; what became of the calls, by word."""
        until, reports = time.monotonic() + budget_s, list[Report]()
        counts: dict[str, int] = {}
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="courier") as threads:
            while True:
                answer = self._ask(question(self.id, reports, AT_ONCE if time.monotonic() < until else 0))
                for word, number in answer["counts"].items():
                    counts[word] = counts.get(word, 0) + number
                calls = calls_of(answer)
                if not calls:
                    return counts
                reports = list(threads.map(self._send, calls))


def question(courier_id: str, reports: Sequence[Report], take: int) -> dict[str, Any]:
    """What a courier asks: for so many calls, with the reports of those it has made."""
    return {"courier": {"id": courier_id, "take": take, "reports": [one._asdict() for one in reports]}}


def calls_of(answer: Mapping[str, Any]) -> list[Call]:
    """The calls in the scheduler's answer."""
    return [Call(**call) for call in answer["calls"]]


def reports_of(asked: Mapping[str, Any]) -> list[Report]:
    """The reports in a courier's question."""
    return [Report(**one) for one in asked.get("reports", [])]
