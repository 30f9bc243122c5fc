"""Fingerprints whose jobs took their workers with them: what is set aside, and what becomes of it."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from tidemill.domain.errors import NotFound
from tidemill.engine.quarantine import Verb, end_quarantine
from tidemill.http import pages
from tidemill.http.fields import Id, Instant
from tidemill.http.job_view import Row, instant
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.operator_verbs import NothingIn
from tidemill.http.queries import Page
from tidemill.store.postgres import PostgresStore

FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")
COUNTED: Final = 10_000
COUNTED_IN_LISTS: Final = 100
STATUSES: Final = {None: "quarantined", "release": "releasing", "discard": "discarding"}

Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class JobCount(TypedDict):
    """A bounded count; `approximate`: there may be more."""

    count: int
    approximate: bool


class Quarantine(TypedDict):
    """A quarantined fingerprint. `jobs`: those set aside; `sample`: the first of them; `losses`: counted since `first_loss_at`.

    `is_swept`: every job that waited when it was quarantined has been looked at; until then those that were not are held back by the
    claim, and explain says so.
    """

    fingerprint: Fingerprint
    job_type: str
    status: Literal["quarantined", "releasing", "discarding"]
    reason: Literal["lease_expired", "crash"] | None
    losses: int
    last_exit_code: int | None
    first_loss_at: Instant
    last_loss_at: Instant
    quarantined_at: Instant
    is_swept: bool
    jobs: JobCount
    sample: list[Id]
    actions: list[Literal["release", "discard"]]


class QuarantinesPage(TypedDict):
    """A page of quarantined fingerprints, the newest first."""

    items: list[Quarantine]
    next_cursor: str | None


class QuarantineEnded(TypedDict):
    """How many jobs moved at once; `is_done` false: the scheduler's passes move the rest. `quarantine` is null once it is over."""

    fingerprint: Fingerprint
    moved: int
    is_done: bool
    quarantine: Quarantine | None


@operation(query=Page, answers={200: QuarantinesPage}, etag=True)
def list_quarantines(call: Call) -> Answer:
    """List what is quarantined, and what is being released, the newest first. Its jobs: `GET /v1/jobs?fingerprint=`."""

    def rows(after: list[str] | None, limit: int) -> list[Row]:
        before = (datetime.fromisoformat(after[0]), after[1]) if after else None
        found: list[Row] = call.database.run(
            lambda store: store.quarantines(call.project_id, before=before, counted=COUNTED_IN_LISTS, limit=limit)
        )
        return found

    return pages.plain(call, "quarantine", rows, lambda row: [row["quarantined_at"].isoformat(), row["fingerprint"]], _shown)


@operation(answers={200: Quarantine})
def show(call: Call, fingerprint: str) -> Answer:
    """Show a quarantined fingerprint, with the losses that led to it and a sample of its jobs."""
    fingerprint = _known(fingerprint)

    def work(store: PostgresStore) -> Row:
        row = _row(store, call, fingerprint)
        if row is None:
            raise NotFound("quarantine", fingerprint)
        return row

    return Answer(_shown(call.database.run(work)))


@operation(body=NothingIn, body_optional=True, answers={200: QuarantineEnded})
def release(call: Call, fingerprint: str) -> Answer:
    """End a quarantine: its jobs go back to where they came from, at their first attempt. New ones pass from now on; losses count anew."""
    return _ended(call, fingerprint, "release")


@operation(body=NothingIn, body_optional=True, answers={200: QuarantineEnded})
def discard(call: Call, fingerprint: str) -> Answer:
    """Cancel the jobs that are set aside. The fingerprint stays quarantined: later jobs that bear it are set aside too."""
    return _ended(call, fingerprint, "discard")


def _ended(call: Call, given: str, verb: Verb) -> Answer:
    fingerprint = _known(given)

    def work(store: PostgresStore) -> Row:
        moved = end_quarantine(store, call.project_id, fingerprint, verb)
        row = _row(store, call, fingerprint)
        call.note("quarantine", fingerprint, after={"verb": verb, "moved": moved})
        return {
            "fingerprint": fingerprint,
            "moved": moved,
            "is_done": row is None or row["verb"] is None,
            "quarantine": _shown(row) if row else None,
        }

    return Answer(call.database.run(work))


def _known(text: str) -> str:
    if not FINGERPRINT.fullmatch(text.lower()):
        raise NotFound("quarantine", text[:100].encode("ascii", "replace").decode())
    return text.lower()


def _row(store: PostgresStore, call: Call, fingerprint: str) -> Row | None:
    return next(iter(store.quarantines(call.project_id, fingerprint=fingerprint, counted=COUNTED)), None)


def _shown(row: Row) -> Row:
    return {
        **{name: row[name] for name in ("fingerprint", "job_type")},
        "status": STATUSES[row["verb"]],
        **{name: row[name] for name in ("reason", "losses", "last_exit_code")},
        **{name: instant(row[name]) for name in ("first_loss_at", "last_loss_at", "quarantined_at")},
        "is_swept": row["swept_at"] is not None,
        "jobs": {"count": row["jobs"], "approximate": row["is_more"]},
        "sample": row["sample"] or [],
        "actions": [] if row["verb"] == "release" else ["release", "discard"],
    }
