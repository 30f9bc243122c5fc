"""Schedules in tests: put one, pass over all, and what came of it, read raw."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from harness.mill import Mill, uuid7
from tidemill.domain.schedule import Schedule, Spec
from tidemill.engine import schedules
from tidemill.engine.fire import Firing

JOB = {"job_type": "report.daily"}


def at(text: str) -> datetime:
    """`2030-01-01 10:00` and the like, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def spec(**fields: Any) -> Spec:
    """Every minute, unless it says otherwise."""
    given = {"job": JOB, **fields}
    return Spec(**given) if "cron" in given or "every_ms" in given else Spec(cron="* * * * *", **given)


def put(mill: Mill, name: str, now: datetime, **fields: Any) -> schedules.Put:
    return schedules.put(mill.store, mill.project_id, name, spec(**fields), new_id=uuid7, now=now)


def put_like(mill: Mill, name: str, names: Sequence[str]) -> None:
    """Puts copies of a schedule, in one statement: many of them take as long as one."""
    mill.conn.execute(
        "insert into tidemill.scheduled_jobs select (jsonb_populate_record(s, jsonb_build_object('id', gen_random_uuid(), 'name', n))).*"
        " from tidemill.scheduled_jobs s cross join unnest(%s::text[]) as n where s.name = %s",
        [list(names), name],
    )


def show(mill: Mill, name: str, now: datetime) -> Schedule:
    return schedules.show(mill.store, mill.project_id, name, now=now)


def fire(mill: Mill, now: datetime | None) -> dict[str, int]:
    """A whole pass of the fire phase; its counts."""
    firing, total = Firing(mill.store, roll=mill.roll, now=now), dict[str, int]()
    while True:
        counts = dict(firing.step())
        more = counts.pop("more")
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
        if not more:
            return total


def occurrences(mill: Mill, name: str, *, cancelled: bool = False) -> list[datetime]:
    """Nominal instants that have a job, in order."""
    rows = mill.conn.execute(
        "select j.scheduled_for from tidemill.jobs j join tidemill.scheduled_jobs s on s.id = j.scheduled_job_id"
        " where s.name = %s and j.scheduled_for is not null and (j.phase = 'cancelled') = %s order by 1",
        [name, cancelled],
    ).fetchall()
    return [row[0].astimezone(UTC) for row in rows]


def jobs(mill: Mill, name: str) -> list[dict[str, Any]]:
    """Its jobs in the order they were made."""
    rows = mill.conn.execute(
        "select to_jsonb(v) || jsonb_build_object('payload', j.payload) from tidemill.job_states v join tidemill.jobs j on j.id = v.id"
        " join tidemill.scheduled_jobs s on s.id = v.scheduled_job_id where s.name = %s order by v.id",
        [name],
    ).fetchall()
    return [dict(row[0]) for row in rows]


def told(mill: Mill, name: str) -> list[tuple[str, datetime, str | None]]:
    """Its events, oldest first: kind, nominal instant, reason."""
    found = schedules.events(mill.store, mill.project_id, name)[::-1]
    return [(event.kind, event.nominal_at.astimezone(UTC), event.reason) for event in found]


def finish_all(mill: Mill, now: datetime) -> int:
    """Claims and completes everything that is due."""
    claimed = mill.claim(500, now=now)
    for job in claimed:
        mill.complete(job, now=now)
    return len(claimed)
