"""Every change outside the data plane leaves a note of who did what to which thing, in the transaction that makes the change.

`dispatch` gives the calls of audited routes this in place of their database: what an endpoint runs on it is one transaction, and
the notes it took with `call.note` end that transaction. A change without a note of its own is noted by its route and path.
Loads no pydantic: the scheduler's Lambda audits too.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from tidemill.http.request import Principal, Request
    from tidemill.http.routes import Route
    from tidemill.store.database import Database
    from tidemill.store.postgres import PostgresStore

T = TypeVar("T")

HIDDEN: Final = "(not kept)"
NEVER_KEPT: Final = frozenset(
    {
        "payload", "headers", "result", "output", "checkpoint", "checkpoint_cursor", "traceparent", "tracestate",
        "api_key", "key_hash", "password", "password_hash", "secret", "token", "access_token", "refresh_token",
    }
)  # fmt: skip
MOST_CHARS: Final = 16_384
"""Of `before` and of `after`; a larger one is noted by the names of its fields."""

_KINDS: Final = {"retry-policies": "retry_policy", "batches": "batch", "rate-classes": "rate_class", "auth": "session"}


class Auditing:
    """A database whose every transaction ends with its notes. One per call."""

    def __init__(self, plain: Database, principal: Principal, request: Request, route: Route, parameters: Mapping[str, str]) -> None:
        self.plain = plain
        """The database as it is, for an endpoint that needs transactions of its own: it takes its notes in a `run` here."""
        self._principal, self._request, self._route = principal, request, route
        verb = route.endpoint.partition(":")[2]
        self._collection = ["projects", *(part for part in route.path.split("/")[2:] if "{" not in part and part != verb)][-1]
        self._thing = next(iter(parameters.values()), "")
        self._notes: list[dict[str, Any]] = []
        self._told = False

    def run(self, work: Callable[[PostgresStore], T]) -> T:
        """What `work` returns; its changes and their notes are stored together, or neither."""

        def audited(store: PostgresStore) -> T:
            self._notes, self._told = [], False  # a repeat after a deadlock takes them again
            with store.transaction():
                if self._thing:
                    store.lock_thing(f"{self._principal.project_id} {self._collection} {self._thing}")
                result = work(store)
                for note in self._notes if self._told else [self._by_default()]:
                    store.audit(note)
            return result

        return self.plain.run(audited)

    def note(
        self, kind: str, target_id: str, *, before: Any = None, after: Any = None, action: str | None = None, org_id: str | None = None
    ) -> None:
        """Takes a note. Where `before` and `after` are the same, nothing was done and nothing is noted."""
        self._told = True
        if before is not None and before == after:
            return
        note = self._by_default() | {"target_kind": kind, "target_id": target_id[:300], "only_after_writes": False}
        self._notes.append(note | {"action": action or note["action"], "org_id": org_id, "before": kept(before), "after": kept(after)})

    def _by_default(self) -> dict[str, Any]:
        kind = _KINDS.get(self._collection, self._collection.removesuffix("s").replace("-", "_"))
        verb = self._route.endpoint.partition(":")[2]
        who = self._principal
        return {
            "project_id": who.project_id or None, "org_id": None, "actor_kind": who.kind, "actor_id": _uuid(who.id),
            "action": f"{self._collection}.{verb}", "target_kind": kind, "target_id": self._thing[:300],
            "before": None, "after": None, "request_id": self._request.request_id, "only_after_writes": True,
        }  # fmt: skip


def event(
    request: Request, actor_kind: str, actor_id: str | None, action: str, target_kind: str, target_id: str, after: Any = None
) -> dict[str, Any]:
    """A note of what happens outside of every project: a login and its end."""
    return {
        "project_id": None, "org_id": None, "actor_kind": actor_kind, "actor_id": actor_id, "action": action, "target_kind": target_kind,
        "target_id": target_id, "before": None, "after": kept(after), "request_id": request.request_id, "only_after_writes": False,
    }  # fmt: skip


def kept(value: Any) -> str | None:
    """The JSON that the log keeps of a value: without payloads and secrets, and bounded."""
    if value is None:
        return None
    text = json.dumps(_bare(value), ensure_ascii=False, default=_plain)
    if len(text) > MOST_CHARS:
        text = json.dumps({"too_large": sorted(value)[:100] if isinstance(value, Mapping) else True})
    return text


def _bare(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: HIDDEN if name in NEVER_KEPT and inner is not None else _bare(inner) for name, inner in value.items()}
    return [_bare(inner) for inner in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _uuid(text: str) -> str | None:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None
