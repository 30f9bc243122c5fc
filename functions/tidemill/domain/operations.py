"""Bulk operations: which jobs an action touches, what a plan is, and when it has drifted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from tidemill.domain import transitions
from tidemill.domain.errors import Fault, Invalid
from tidemill.domain.transitions import Event, State

ACTIONS: Final = ("retry", "cancel", "delete", "discard", "promote")
REMOVE_QUEUE: Final = "remove_queue"
UNDOABLE: Final = ("cancel", "discard")
DRIFT_PERCENT: Final = 10
"""By how much the match may grow between plan and apply."""

_EVENTS: Final = {"retry": Event.RETRY, "cancel": Event.CANCEL, "promote": Event.PROMOTE, "discard": Event.DISCARD}
TOUCHES: Final[Mapping[str, frozenset[State]]] = {
    **{action: frozenset(s for s in State if transitions.targets(s, event)) for action, event in _EVENTS.items()},
    "delete": frozenset(s for s in State if transitions.deletable(s)),
}
"""States that an action can do something with; a discard also resolves dead letters."""

Status = Literal["planned", "applying", "completed", "failed", "aborted", "undoing", "undone"]


@dataclass(frozen=True, slots=True)
class Operation:
    """A plan and what has become of it. `filter`: as it was given; `states`: what of it the action can touch.

    `skips` and `undo_skips`: members left alone, by reason. `again`: members that somebody else held when their turn came.
    """

    id: str
    project_id: str
    action: str
    stored_status: Status
    filter: Mapping[str, Any]
    states: Sequence[str]
    estimate: int
    is_approximate: bool
    counts: Mapping[str, Any]
    sample: Sequence[Any]
    hash: str
    allow_drift: bool
    total: int | None
    affected: int
    skips: Mapping[str, int]
    position: str | None
    is_walked: bool
    again: Sequence[str]
    error: str | None
    queue_id: str | None
    created_by: str | None
    actor_kind: str | None
    created_at: datetime
    applied_by: str | None
    applied_at: datetime | None
    updated_at: datetime
    finished_at: datetime | None
    undo_by: str | None
    undo_at: datetime | None
    undone: int
    undo_skips: Mapping[str, int]
    undo_position: str | None
    undone_at: datetime | None
    snapshot_at: datetime

    @property
    def status(self) -> Status:
        """Where it stands, its undo included."""
        if self.undone_at is not None:
            return "undone"
        return "undoing" if self.undo_at is not None else self.stored_status

    @property
    def skipped(self) -> int:
        """Members left alone so far."""
        return sum(self.skips.values())

    @property
    def query(self) -> dict[str, Any]:
        """The filter of its members: its own, its action's states, and nothing that was created after it was applied."""
        query = {**self.filter, "state": list(self.states)}
        if self.applied_at is not None:
            edges = [self.applied_at, *([_instant(self.filter["created_before"])] if "created_before" in self.filter else [])]
            query["created_before"] = min(edges).isoformat()
        return query

    @property
    def actions(self) -> list[str]:
        """What may be done with it."""
        return {
            "planned": ["apply", "abort"],
            "applying": ["abort"],
            "completed": ["undo"] if self.action in UNDOABLE and self.affected else [],
            "aborted": ["undo"] if self.action in UNDOABLE and self.affected else [],
        }.get(self.status, [])


@dataclass(slots=True)
class Tally:
    """Jobs that match, by kind; `is_approximate`: a lower bound, because counting took too long."""

    count: int = 0
    is_approximate: bool = False
    states: dict[str, int] = field(default_factory=dict)
    job_types: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def add(self, state: str, job_type: str, error: str | None, count: int, example: str) -> None:
        """Counts a kind."""
        self.count += count
        self.states[state] = self.states.get(state, 0) + count
        self.job_types[job_type] = self.job_types.get(job_type, 0) + count
        if error is not None:
            self.errors[error] = self.errors.get(error, 0) + count
        if len(self.examples) < SAMPLE:
            self.examples.append(example)

    def shown(self) -> dict[str, Any]:
        """The counts as a plan keeps them: the most frequent kinds first, the others together."""
        return {"by_state": self.states, "by_job_type": _most(self.job_types), "by_error_class": _most(self.errors)}


SAMPLE: Final = 10
KINDS: Final = 20


def states_of(action: str, query: Mapping[str, Any]) -> list[str]:
    """What of the filter's states the action can touch. Invalid for an empty filter, and for states it can do nothing with."""
    if not query:
        raise Invalid([Fault(("filter",), "is empty, which would mean every job: give at least one condition, such as state or queue")])
    touched = TOUCHES[action] | ({State.DEAD_LETTER} if action == "discard" else set())
    given = query.get("state")
    if given is None:
        return sorted(touched)
    found = [word for word in given if (State.SCHEDULED if word == "retrying" else State(word)) in touched]
    if not found:
        able = ", ".join(sorted(touched))
        raise Invalid([Fault(("filter", "state"), f"{action} can do nothing with {', '.join(given)} jobs: it touches {able}")])
    return found


def drifted(planned: int, now: int) -> bool:
    """True if the match grew by more than a plan bears."""
    return now * 100 > planned * (100 + DRIFT_PERCENT)


def plan_hash(action: str, query: Mapping[str, Any], counts: Mapping[str, Any]) -> str:
    """What tells one plan from another: action, filter and counts, in hex."""
    text = json.dumps([action, query, counts], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _most(kinds: Mapping[str, int]) -> list[dict[str, Any]]:
    order = sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0]))
    shown: list[dict[str, Any]] = [{"name": name, "count": count} for name, count in order[:KINDS]]
    if rest := sum(count for _, count in order[KINDS:]):
        shown.append({"name": None, "count": rest})
    return shown


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
