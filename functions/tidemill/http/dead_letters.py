"""Dead letters: list them, group them by kind of error, settle one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from tidemill.domain import limits
from tidemill.domain.errors import Fault, Invalid
from tidemill.engine import dead_letters as engine
from tidemill.http import pages
from tidemill.http.fields import text_of
from tidemill.http.job_detail import row_of
from tidemill.http.job_view import Row, instant, job_json, with_json
from tidemill.http.models.dead_letters import DeadLettersPage, DeadLettersQuery, ErrorGroupsPage, Resolved, ResolveIn
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.parameters import path_id
from tidemill.http.scans import scanned
from tidemill.store.dead_letters import Grave
from tidemill.store.job_filters import filters_of, walk_of
from tidemill.store.lists import Place
from tidemill.store.postgres import PostgresStore

PAYLOADS_AT_ONCE: Final = 16
GROUPED: Final = ("queue", "job_type", "job_type_prefix", "error_class")
OWN: Final = frozenset({"limit", "cursor", "group_by", "sort", "include"})


@operation(query=DeadLettersQuery, answers={200: DeadLettersPage | ErrorGroupsPage}, etag=True)
def list_dead_letters(call: Call) -> Answer:
    """List dead letters that nobody has settled, the latest first; or, with `group_by=error`, the kinds of their errors.

    Takes the filters of jobs. A page may end early with a `next_cursor`; null means that there is no more.
    """
    return _groups(call) if "group_by" in call.query else _letters(call)


@operation(body=ResolveIn, answers={200: Resolved})
def resolve(call: Call, id: str) -> Answer:
    """Settle a dead letter. Retrying starts the job anew; discarding leaves it dead and out of the open ones."""
    job_id = path_id("job", id)
    action, note = call.body["action"], call.body.get("note")

    def work(store: PostgresStore) -> str:
        latest = store.latest_dead_letter(call.project_id, job_id)
        before = store.dead_letters_by_id(call.project_id, [latest.id] if latest else [])
        settled = engine.resolve(store, call.project_id, job_id, action, by=call.principal.id, note=note)
        letter = store.dead_letters_by_id(call.project_id, [settled])[0]
        call.note("dead_letter", job_id, before=_told(before[0]) if before else None, after=_told(letter))
        return f'{{"dead_letter":{_letter(letter, payload=False)},"job":{job_json(row_of(store, call.project_id, job_id))}}}'

    return Answer(call.database.run(work))


def _told(letter: Row) -> Row:
    return {name: letter[name] for name in ("resolved", "resolution", "note")}


def _letters(call: Call) -> Answer:
    query = call.query
    filters, is_filtered = filters_of(query), bool(query.keys() - OWN - {"error_group"})
    descending = query.get("sort", "-moved_at").startswith("-")
    payload = query.get("include") == "payload"
    cursors = pages.cursors_of(call, "dead-letters")
    start = pages.start_of(call, cursors)
    after = Grave(datetime.fromisoformat(start[0]), start[1], "") if start else None

    def work(store: PostgresStore) -> Answer:
        named = _named(store, call) if "q" in query else None

        def walk(behind: Grave | None, limit: int) -> list[Grave]:
            place = Place(behind.key, behind.id) if behind else None
            return store.graves(
                call.project_id, place, error_group=query.get("error_group"), job_ids=named, descending=descending, limit=limit
            )

        def matching(places: Sequence[Grave]) -> Sequence[Grave]:
            if not is_filtered:
                return places
            by_job = {place.job_id: place for place in places}
            return [by_job[job_id] for job_id in store.matching(call.project_id, list(by_job), filters)]

        found, more = scanned(walk, matching, after, pages.size_of(call))
        return pages.answer(_shown(store, call.project_id, found, payload=payload), cursors, more=_position(more) if more else None)

    answer: Answer = call.database.run(work)
    return answer


def _named(store: PostgresStore, call: Call) -> list[str]:
    """The jobs that `q` names: by id or by exact key."""
    walk = walk_of({"q": call.query["q"]})
    places = store.walk(walk.name, call.project_id, None, descending=True, limit=limits.PAGE_ROWS[1], values=walk.values)
    return [place.id for place in places]


def _shown(store: PostgresStore, project_id: str, places: list[Grave], *, payload: bool) -> Iterator[tuple[str, pages.Position]]:
    step = PAYLOADS_AT_ONCE if payload else len(places) or 1
    for begin in range(0, len(places), step):
        part = {place.id: place for place in places[begin : begin + step]}
        for row in store.dead_letters_by_id(project_id, list(part), payload=payload):
            yield _letter(row, payload=payload), _position(part[row["id"]])


def _position(grave: Grave) -> list[Any]:
    return [text_of(grave.key), grave.id]


def _letter(row: Row, *, payload: bool) -> str:
    plain = ("id", "job_id", "queue", "job_type", "reason", "attempt_count")
    fields = {
        **{name: row[name] for name in plain},
        "error": {"class": row["error_class"], "message": row["error_message"]} if row["error_class"] or row["error_message"] else None,
        "error_group": row["error_group"],
        "moved_at": instant(row["moved_at"]),
        **{name: row[name] for name in ("resolved", "resolution")},
        "resolved_at": instant(row["resolved_at"]),
        **{name: row[name] for name in ("resolved_by", "note")},
    }
    return with_json(fields, payload=row["payload"]) if payload else with_json(fields)


def _groups(call: Call) -> Answer:
    query = call.query
    foreign = sorted(query.keys() - OWN - set(GROUPED)) + [name for name in ("sort", "include") if name in query]
    if foreign:
        text = f"does not go with group_by=error, which takes {', '.join(GROUPED)}: leave it out, or list without group_by"
        raise Invalid([Fault(("query", name), text) for name in foreign])
    cursors = pages.cursors_of(call, "dead-letters")
    start = pages.start_of(call, cursors)
    after = (datetime.fromisoformat(start[0]), bytes.fromhex(start[1])) if start else None
    size = pages.size_of(call)

    def work(store: PostgresStore) -> list[Row]:
        return store.error_groups(call.project_id, query, after, limit=size + 1, rows=limits.SCAN_ROWS)

    rows = call.database.run(work)
    scope = {name: query[name] for name in GROUPED if name in query}
    items = [(_group(row, scope), [text_of(row["first_seen_at"]), row["error_group"]]) for row in rows[:size]]
    return pages.answer(items, cursors, more=items[-1][1] if len(rows) > size else None)


def _group(row: Row, scope: Row) -> str:
    plain = ("error_group", "error_class", "message")
    shown = {
        **{name: row[name] for name in plain},
        "count": {"count": row["open_count"], "approximate": not row["is_whole"]},
        "total": row["total"],
        **{name: instant(row[name]) for name in ("first_seen_at", "last_seen_at")},
        "last_24_h": [int(deaths) for deaths in row["deaths"]],
        **{name: row[name] for name in ("queues", "job_types", "sample_job_id", "sample_message")},
        "filter": {"state": ["dead_letter"], "error_group": row["error_group"], **scope},
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
