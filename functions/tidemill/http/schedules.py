"""Schedules of a project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from tidemill.domain import limits
from tidemill.domain.cron import OnFold, OnGap
from tidemill.domain.errors import Fault, Invalid
from tidemill.domain.schedule import OnMissed, Overlap, Schedule, Spec
from tidemill.engine import schedules as engine
from tidemill.http import pages
from tidemill.http.ids import new_id
from tidemill.http.job_detail import row_of
from tidemill.http.job_view import job_json
from tidemill.http.models.jobs import Created, JobIn
from tidemill.http.models.schedules import (
    Preview,
    PreviewIn,
    PreviewQuery,
    ScheduleDocument,
    ScheduleEdit,
    ScheduleEvents,
    ScheduleIn,
    SchedulesPage,
    SyncIn,
    SyncOut,
)
from tidemill.http.models.schedules import Schedule as ScheduleOut
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.operator_verbs import NothingIn
from tidemill.http.parameters import path_name
from tidemill.http.queries import Page
from tidemill.http.routes import VERBS
from tidemill.http.schedule_view import event_shown, preview_shown, shown
from tidemill.http.validation import checked
from tidemill.store.postgres import PostgresStore

PREVIEWED: Final = 10
_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "on_gap": OnGap, "on_fold": OnFold, "on_missed": OnMissed, "overlap": Overlap,
    "starts_at": datetime.fromisoformat, "ends_at": datetime.fromisoformat,
}  # fmt: skip
_DEFAULTS: Final = Spec(job={})


@operation(query=Page, answers={200: SchedulesPage}, etag=True)
def list_schedules(call: Call) -> Answer:
    """List the schedules by name."""

    def rows(after: str | None, limit: int) -> list[Schedule]:
        found: list[Schedule] = call.database.run(
            lambda store: store.schedules(call.project_id, name=None, after=after, limit=limit, now=None)
        )
        return found

    return pages.plain(call, "schedules", rows, lambda schedule: schedule.name, shown)


@operation(body=ScheduleIn, document=ScheduleDocument, answers={200: ScheduleOut, 201: ScheduleOut})
def put(call: Call, name: str) -> Answer:
    """Create a schedule, or make it what the body says. An unchanged one keeps its phase and is not touched.

    A change takes back occurrences that were made ready ahead, and counts from now; it never fires by itself.
    """
    name, spec = _name(name), _spec(call.body, call, ())

    def work(store: PostgresStore) -> engine.Put:
        before = _as_it_is(store, call, name)
        done = engine.put(store, call.project_id, name, spec, new_id=lambda: str(new_id()))
        call.note("schedule", name, before=before, after=told(done.schedule))
        return done

    done = call.database.run(work)
    return Answer(shown(done.schedule), 201 if done.created else 200)


@operation(body=SyncIn, answers={200: SyncOut})
def sync(call: Call) -> Answer:
    """Upsert the schedules that a program declares, and pause those that it declared once and no more. All or nothing."""
    specs = {_name(name): _spec(given, call, ("schedules", name)) for name, given in call.body["schedules"].items()}

    def work(store: PostgresStore) -> Mapping[str, int]:
        declared_by = call.body["declared_by"]
        with store.transaction():
            counts = engine.sync(store, call.project_id, declared_by, specs, new_id=lambda: str(new_id()))
        nothing = dict.fromkeys(counts, 0)
        call.note("schedule", declared_by, before=nothing, after=dict(counts))
        return counts

    return Answer(dict(call.database.run(work)))


@operation(answers={200: ScheduleOut})
def show(call: Call, name: str) -> Answer:
    """Show a schedule."""
    name = path_name("schedule", name)
    return Answer(shown(call.database.run(lambda store: engine.show(store, call.project_id, name))))


@operation(body=ScheduleEdit, answers={200: ScheduleOut})
def edit(call: Call, name: str) -> Answer:
    """Change a schedule; what is left out stays. It counts from now and never fires by itself."""
    given = dict(call.body)
    fields = given.pop("job", None)

    def change(stored: Spec) -> Spec:
        job = stored.job if fields is None else _job({**stored.job, **fields}, call)
        if given.get("cron") is not None and "every_ms" not in given:
            stored = replace(stored, every_ms=None)
        if given.get("every_ms") is not None and "cron" not in given:
            stored = replace(stored, cron=None)
        return _laid_over(replace(stored, is_paused=None), given, job)

    return _answered(call, name, lambda store, name: engine.edit(store, call.project_id, name, change))


@operation(answers={204: None})
def delete(call: Call, name: str) -> Answer:
    """Remove a schedule and its events. Occurrences that are not due yet are cancelled; its other jobs stay."""
    name = path_name("schedule", name)

    def work(store: PostgresStore) -> None:
        before = told(engine.show(store, call.project_id, name))
        engine.delete(store, call.project_id, name)
        call.note("schedule", name, before=before)

    call.database.run(work)
    return Answer("", 204)


@operation(body=NothingIn, body_optional=True, answers={200: ScheduleOut})
def pause(call: Call, name: str) -> Answer:
    """Pause a schedule: it fires no more, and occurrences that are not due yet are cancelled."""
    return _answered(call, name, lambda store, name: engine.pause(store, call.project_id, name))


@operation(body=NothingIn, body_optional=True, answers={200: ScheduleOut})
def resume(call: Call, name: str) -> Answer:
    """End a pause, or try again after an error: the next occurrence is the first one from now."""
    return _answered(call, name, lambda store, name: engine.resume(store, call.project_id, name))


@operation(body=NothingIn, body_optional=True, answers={200: Created, 201: Created})
def trigger(call: Call, name: str) -> Answer:
    """Make one job of the schedule now, whatever its pause or its overlap rule says. Its occurrences go on as they were."""
    name = path_name("schedule", name)

    def work(store: PostgresStore) -> tuple[bool, str]:
        made = engine.trigger(store, call.project_id, name)
        assert made.job_id is not None
        call.note("schedule", name, after={"job_id": made.job_id, "deduplicated": made.deduplicated})
        return made.deduplicated, job_json(row_of(store, call.project_id, made.job_id))

    deduplicated, text = call.database.run(work)
    return Answer(f'{{"job":{text},"deduplicated":{"true" if deduplicated else "false"}}}', 200 if deduplicated else 201)


@operation(answers={200: ScheduleEvents}, etag=True)
def events(call: Call, name: str) -> Answer:
    """Show the last 100 fires, skips, cancellations and errors, newest first, with reasons."""
    name = path_name("schedule", name)
    found = call.database.run(lambda store: engine.events(store, call.project_id, name))
    return Answer({"items": [event_shown(event) for event in found], "next_cursor": None})


@operation(query=PreviewQuery, answers={200: Preview})
def preview(call: Call, name: str) -> Answer:
    """Show when a schedule fires next, paused or not."""
    name = path_name("schedule", name)

    def work(store: PostgresStore) -> tuple[Schedule, datetime]:
        return engine.show(store, call.project_id, name), store.clock(now=None)

    schedule, now = call.database.run(work)
    found = engine.preview(schedule.spec, anchor=schedule.anchor_at, after=now, n=call.query.get("n", PREVIEWED))
    return Answer(preview_shown(found))


@operation(body=PreviewIn, answers={200: Preview})
def preview_timing(call: Call) -> Answer:
    """Show when a timing would fire, without storing anything."""
    given = {name: value for name, value in call.body.items() if value is not None}
    after, n = given.pop("after", None), given.pop("n", PREVIEWED)
    if ("cron" in given) == ("every_ms" in given):
        raise Invalid([Fault(("cron",), "give either cron or every_ms, and only one of them")])
    at = datetime.fromisoformat(after) if after is not None else call.database.run(lambda store: store.clock(now=None))
    return Answer(preview_shown(engine.preview(_laid_over(_DEFAULTS, given, {}), anchor=at, after=at, n=n)))


def _answered(call: Call, name: str, verb: Callable[[PostgresStore, str], Schedule]) -> Answer:
    name = path_name("schedule", name)

    def work(store: PostgresStore) -> Schedule:
        before = told(engine.show(store, call.project_id, name))
        after = verb(store, name)
        call.note("schedule", name, before=before, after=told(after))
        return after

    return Answer(shown(call.database.run(work)))


def told(schedule: Schedule) -> dict[str, Any]:
    """What the audit log keeps of a schedule: what it was told, not where it stands."""
    return {
        name: value for name, value in shown(schedule).items() if name not in ("updated_at", "next_run_at", "last_run_at", "description")
    }


def _as_it_is(store: PostgresStore, call: Call, name: str) -> dict[str, Any] | None:
    found = store.schedules(call.project_id, name=name, after=None, limit=1, now=None)
    return told(found[0]) if found else None


def _name(name: str) -> str:
    """A name that a new schedule may have: one that no path can confuse with a verb."""
    if not limits.is_name(name):
        raise Invalid([Fault(("name",), limits.NAME_RULE)])
    last = name.rpartition("/")[2]
    if "/" in name and last in {verb for verbs in VERBS["schedules"].values() for verb in verbs}:
        raise Invalid([Fault(("name",), f"must not end in /{last}, which is a verb of this API")])
    return name


def _spec(given: Mapping[str, Any], call: Call, at: tuple[str, ...]) -> Spec:
    rest = {name: value for name, value in given.items() if name != "job"}
    return _laid_over(_DEFAULTS, rest, _job(given["job"], call, at))


def _job(given: Any, call: Call, at: tuple[str, ...] = ()) -> dict[str, Any]:
    assert call.raw is not None
    found: dict[str, Any] = checked(JobIn, given, at=(*at, "job"), storable=not call.raw.may_be_unstorable)
    return found


def _laid_over(spec: Spec, given: Mapping[str, Any], job: Mapping[str, Any]) -> Spec:
    """`spec` with the fields that are given; null means the default."""
    fields = {
        name: getattr(_DEFAULTS, name) if value is None else _READ.get(name, lambda same: same)(value) for name, value in given.items()
    }
    return replace(spec, **{**fields, "job": job})
