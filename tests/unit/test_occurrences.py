"""The decision about occurrences, by its properties and by example: pure, so no database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.domain import templates
from tidemill.domain.errors import Invalid
from tidemill.domain.occurrences import GRACE, LISTED, Fire, Plan, plan
from tidemill.domain.schedule import OnMissed, Overlap, Spec, anchor_of, check, jitter

BORN = datetime(2030, 1, 1, tzinfo=UTC)
AHEAD = timedelta(seconds=90)
EXPRESSIONS = ["* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "0 0 * * 1", "0 0 1 * *"]
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"]

specs = st.builds(
    lambda timing, zone, **rules: Spec(job={"job_type": "t"}, **_timing(timing, zone), **rules),
    timing=st.one_of(st.sampled_from(EXPRESSIONS), st.integers(1_000, 200_000)),
    zone=st.sampled_from(ZONES),
    on_missed=st.sampled_from(OnMissed),
    backfill_limit=st.integers(1, 300),
    overlap=st.sampled_from(Overlap),
    ends_at=st.one_of(st.none(), st.integers(0, 10**8).map(lambda seconds: BORN + timedelta(seconds=seconds))),
)
instants = st.integers(0, 10**8).map(lambda seconds: BORN + timedelta(seconds=seconds))


def _timing(timing: str | int, zone: str) -> dict[str, Any]:
    return {"cron": timing, "timezone": zone} if isinstance(timing, str) else {"every_ms": timing}


def decided(spec: Spec, cursor: datetime, now: datetime, **how: Any) -> Plan:
    return plan(spec, spec.timetable(BORN), next_run_at=cursor, now=now, ahead=AHEAD, **how)


def fired(made: Plan) -> list[datetime]:
    return [fire.nominal_at for fire in made.fires]


@given(spec=specs, since=instants, lag=st.integers(0, 10**7), unfinished=st.integers(0, 3), most=st.integers(2, 120))
def test_a_pass_decides_every_instant_once_and_in_order(spec: Spec, since: datetime, lag: int, unfinished: int, most: int) -> None:
    timetable = spec.timetable(BORN)
    cursor = spec.first_run(timetable, since)
    now = since + timedelta(seconds=lag)
    if cursor is None:
        return
    made = decided(spec, cursor, now, unfinished=unfinished, most=most)
    instants_made = fired(made)
    assert all(earlier < later for earlier, later in pairwise(instants_made))
    assert len(instants_made) <= most
    assert all(cursor <= instant <= now + AHEAD for instant in instants_made)
    assert all(timetable.next_after(instant - timedelta(microseconds=1)) == instant for instant in instants_made), (
        "no instant of its own making"
    )
    if spec.ends_at is not None:
        assert all(instant < spec.ends_at for instant in instants_made)
        assert made.next_run_at is None or made.next_run_at < spec.ends_at
    if made.next_run_at is not None:
        assert all(instant < made.next_run_at for instant in instants_made)
        assert all(skip.nominal_at < made.next_run_at for skip in made.skips)
        assert made.next_run_at > now or not made.is_complete, "what has come is decided about, unless there is too much of it"
    assert made.is_complete or len(instants_made) == most


@given(spec=specs, since=instants, lag=st.integers(0, 10**7), unfinished=st.integers(0, 3))
def test_late_fires_obey_the_rule_for_missed_ones(spec: Spec, since: datetime, lag: int, unfinished: int) -> None:
    cursor = spec.first_run(spec.timetable(BORN), since)
    now = since + timedelta(seconds=lag)
    if cursor is None:
        return
    made = decided(spec, cursor, now, unfinished=unfinished, most=1_000)
    late = [instant for instant in fired(made) if instant <= now]
    assert len(late) <= (spec.backfill_limit if spec.on_missed is OnMissed.BACKFILL else 1)
    if spec.on_missed is OnMissed.SKIP:
        assert all(now - instant <= GRACE for instant in late)
    elif spec.overlap is Overlap.ALLOW and cursor <= now and (spec.ends_at is None or spec.ends_at > now):
        last = spec.timetable(BORN).previous_before(now + timedelta(microseconds=1))
        assert late[-1] == last, "the latest of what was missed is among them"


@given(spec=specs, since=instants, unfinished=st.integers(1, 3), lag=st.integers(0, 10**5))
def test_an_unfinished_predecessor_is_never_joined_unless_allowed(spec: Spec, since: datetime, unfinished: int, lag: int) -> None:
    cursor = spec.first_run(spec.timetable(BORN), since)
    if cursor is None:
        return
    made = decided(spec, cursor, since + timedelta(seconds=lag), unfinished=unfinished, most=1_000)
    match spec.overlap:
        case Overlap.SKIP:
            assert not made.fires
        case Overlap.BUFFER_ONE:
            assert [fire.regard for fire in made.fires] == ["wait"][: max(0, 2 - unfinished)][: len(made.fires)]
        case Overlap.CANCEL_RUNNING:
            assert [fire.regard for fire in made.fires] in ([], ["cancel"])
        case Overlap.ALLOW:
            assert all(fire.regard == "none" for fire in made.fires)


@given(spec=specs, gaps=st.lists(st.integers(1, 60), min_size=1, max_size=60))
def test_passes_within_a_minute_make_every_instant_exactly_once(spec: Spec, gaps: list[int]) -> None:
    """With `allow` and no absence, all passes together make what the timetable says, and nothing is late."""
    spec = Spec(job=spec.job, cron=spec.cron, every_ms=spec.every_ms, timezone=spec.timezone)
    now, made = BORN, list[Fire]()
    cursor = spec.first_run(spec.timetable(BORN), now)
    for gap in gaps:
        assert cursor is not None
        done = decided(spec, cursor, now, most=1_000)
        made, cursor = made + done.fires, done.next_run_at
        assert not done.skips
        now += timedelta(seconds=gap)
    until = now - timedelta(seconds=gaps[-1]) + AHEAD
    assert [fire.nominal_at for fire in made] == spec.timetable(BORN).between(BORN, until, 10_000)


def test_an_absence_of_four_hundred_days_lists_no_more_than_a_hundred_minutes() -> None:
    class Counted:
        """A timetable that counts what it is asked for."""

        def __init__(self) -> None:
            self.real, self.given = spec.timetable(BORN), 0

        def between(self, start: datetime, end: datetime, limit: int) -> list[datetime]:
            found = self.real.between(start, end, limit)
            self.given += len(found)
            return found

        def previous_before(self, before: datetime) -> datetime | None:
            self.given += 1
            return self.real.previous_before(before)

        def next_after(self, after: datetime) -> datetime | None:
            self.given += 1
            return self.real.next_after(after)

    spec = Spec(job={}, cron="* * * * *", on_missed=OnMissed.RUN_ONCE)
    counted = Counted()
    made = plan(spec, counted, next_run_at=BORN, now=BORN + timedelta(days=400), ahead=AHEAD)
    assert counted.given <= LISTED + 10
    assert made.skips[0].reason == f"missed: more than {LISTED - 1} from 2030-01-01T00:00:00Z on"


def test_a_stored_instant_that_no_rule_makes_counts_as_one() -> None:
    spec = Spec(job={}, cron="0 0 1 1 *")
    odd = BORN + timedelta(days=3, seconds=5)
    assert fired(decided(spec, odd, odd)) == [odd]


def test_jitter_stays_below_its_bound_and_spreads() -> None:
    found = {jitter("s", BORN + timedelta(minutes=n), 10_000) for n in range(200)}
    assert all(timedelta(0) <= delay < timedelta(seconds=10) for delay in found)
    assert len(found) > 150
    assert jitter("s", BORN, 0) == timedelta(0)
    assert jitter("s", BORN, 1) == timedelta(0)


def test_the_anchor_of_an_interval_is_its_start_or_stays() -> None:
    first = Spec(job={}, every_ms=60_000)
    assert anchor_of(first, None, now=BORN + timedelta(milliseconds=1_500)) == BORN + timedelta(seconds=1)
    later = BORN + timedelta(days=1)
    assert anchor_of(Spec(job={}, every_ms=60_000, starts_at=later), None, now=BORN) == later


def test_faults_of_a_schedule_are_told_all_at_once() -> None:
    wrong = Spec(job={"payload": 5, "run_at": "x"}, starts_at=BORN, ends_at=BORN, on_missed=OnMissed.BACKFILL)
    with pytest.raises(Invalid) as caught:
        check(wrong, anchor=BORN, now=BORN)
    assert {fault.loc for fault in caught.value.faults} == {
        ("cron",), ("ends_at",), ("backfill_limit",), ("job", "run_at"), ("job", "payload")
    }  # fmt: skip


def test_a_template_does_not_change_when_it_is_filled() -> None:
    template = {"a": ["{{schedule}}", 1, None, True], "{{schedule}}": 1.0}
    assert templates.fill(template, schedule="s", scheduled_at=BORN) == {"a": ["s", 1, None, True], "{{schedule}}": 1.0}
    assert template == {"a": ["{{schedule}}", 1, None, True], "{{schedule}}": 1.0}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{scheduled_at}}", "2030-01-01T00:00:00.250Z"),
        ("{{ scheduled_at }}{{schedule}}", "2030-01-01T00:00:00.250Zs{{x}}"),
        ("{{schedules}} {schedule} {{}}", "{{schedules}} {schedule} {{}}"),
    ],
)
def test_what_is_filled_in_is_not_filled_in_again(text: str, filled: str) -> None:
    at = BORN + timedelta(milliseconds=250)
    assert templates.fill(text, schedule="s{{x}}", scheduled_at=at) == filled
