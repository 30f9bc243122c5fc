"""The audit log: who did what to which thing, with how it was before and after."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill.http import pages
from tidemill.http.fields import CLOSED, Id, Instant
from tidemill.http.job_view import Row, instant
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.queries import Page

SCAN: Final = 1_000
"""How many notes a page looks at where no index knows the filter."""

LATE: Final = timedelta(hours=1)
"""A note may stand behind younger ones for as long as its transaction lasted; none lasts that long."""

FILTERS: Final = ("actor_id", "actor_kind", "action", "target_kind", "target_id", "request_id", "since", "until")

Actor = Literal["api_key", "user", "system"]
Text = Annotated[str, Field(min_length=1, max_length=300)]


class AuditQuery(Page):
    """What to look for. `action` as it is written, such as `queues.pause`; `since` is included, `until` is not."""

    actor_id: NotRequired[Id]
    actor_kind: NotRequired[Actor]
    action: NotRequired[Text]
    target_kind: NotRequired[Text]
    target_id: NotRequired[Text]
    request_id: NotRequired[Text]
    since: NotRequired[Instant]
    until: NotRequired[Instant]


@with_config(CLOSED)
class Note(TypedDict):
    """One change. `actor`: the key's name or the user's email, while there is one. No payload or secret is in `before` and `after`."""

    id: str
    at: Instant
    actor_kind: Actor
    actor_id: Id | None
    actor: str | None
    action: str
    target_kind: str
    target_id: str
    before: Any
    after: Any
    request_id: str | None


class AuditPage(TypedDict):
    """A page of the log."""

    items: list[Note]
    next_cursor: str | None


@operation(query=AuditQuery, answers={200: AuditPage}, etag=True)
def list_notes(call: Call) -> Answer:
    """List who changed what, newest first. A page may end early with a `next_cursor`; null means that there is no more."""
    filters = {name: call.query.get(name) for name in FILTERS}
    size = pages.size_of(call)
    scan = SCAN if any(filters[name] is not None for name in ("actor_kind", "request_id", "since", "until")) else size + 1
    cursors = pages.cursors_of(call, "audit")
    start = pages.start_of(call, cursors)
    rows: list[Row] = call.database.run(
        lambda store: store.audit_log(call.project_id, before=start[0] if start else None, filters=filters, scan=scan)
    )
    return page(rows, cursors, size=size, is_full=len(rows) == scan, since=filters["since"])


@operation(query=AuditQuery, answers={200: AuditPage}, etag=True)
def list_notes_of(call: Call, id: str) -> Answer:  # noqa: ARG001 - admission has compared it
    """List what happened to an organization, its members and its projects as such, newest first."""
    filters = {name: call.query.get(name) for name in FILTERS}
    org_id, size = call.principal.org_id, pages.size_of(call)
    cursors = pages.cursors_of(call, f"audit {org_id}")
    start = pages.start_of(call, cursors)
    rows: list[Row] = call.database.run(
        lambda store: store.audit_log_of(org_id, before=start[0] if start else None, filters=filters, scan=SCAN)
    )
    return page(rows, cursors, size=size, is_full=len(rows) == SCAN, since=filters["since"])


def page(rows: list[Row], cursors: Any, *, size: int, is_full: bool, since: str | None) -> Answer:
    """The page of those that match; goes on behind the last one looked at."""
    found = [row for row in rows if row["matches"]]
    if len(found) > size:
        more = found[size - 1]["id"]
    else:
        is_over = not is_full or (since is not None and rows[-1]["at"] < datetime.fromisoformat(since) - LATE)
        more = None if is_over else rows[-1]["id"]
    items = [(json.dumps(_shown(row), ensure_ascii=False, separators=(",", ":")), [row["id"]]) for row in found[:size]]
    return pages.answer(items, cursors, more=[more] if more is not None else None)


def _shown(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "matches"} | {"id": str(row["id"]), "at": instant(row["at"])}
