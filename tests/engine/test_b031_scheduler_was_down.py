"""B031: nothing fired for a while. What was missed follows each schedule's rule, at a price that does not grow with the absence."""

import time
from datetime import datetime, timedelta

import pytest

from harness.mill import DAY, H, M, Mill, S
from harness.schedules import at, finish_all, fire, occurrences, put, show, told
from tidemill.domain.schedule import OnMissed, Overlap

BORN = at("2030-01-06 23:59:30")  # a Sunday
RULES = {"minutely": "* * * * *", "hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": "0 0 * * 1"}
ABSENCES = {"3h": 3 * H, "3d": 3 * DAY, "400d": 400 * DAY}


def past(mill: Mill, name: str, now: datetime) -> list[datetime]:
    """Occurrences whose time has come; the others were made ready for the next 90 s."""
    return [instant for instant in occurrences(mill, name) if instant <= now]


@pytest.mark.parametrize("absence", ABSENCES.values(), ids=ABSENCES)
def test_b031_run_once_makes_the_latest_missed_occurrence_of_each(mill: Mill, absence: timedelta) -> None:
    for name, cron in RULES.items():
        put(mill, name, BORN, cron=cron)
    now = BORN + absence + 10 * S
    began = time.process_time()
    fire(mill, now)
    assert time.process_time() - began < 5
    for name in RULES:
        assert len(past(mill, name, now)) == 1
        next_run_at = show(mill, name, now).next_run_at
        assert next_run_at is not None
        assert next_run_at > now
        expected = show(mill, name, now).timetable().previous_before(now)
        assert past(mill, name, now) == [expected]


@pytest.mark.parametrize("absence", ABSENCES.values(), ids=ABSENCES)
@pytest.mark.parametrize("every_ms", [1_000, 90_000])
def test_b031_an_interval_of_a_second_costs_no_more(mill: Mill, absence: timedelta, every_ms: int) -> None:
    put(mill, "quick", BORN, cron=None, every_ms=every_ms)
    now = BORN + absence
    began = time.process_time()
    fire(mill, now)
    assert time.process_time() - began < 5
    assert len(past(mill, "quick", now)) == 1


def test_b031_skip_makes_nothing_of_what_was_missed(mill: Mill) -> None:
    for name, cron in RULES.items():
        put(mill, name, BORN, cron=cron, on_missed=OnMissed.SKIP)
    now = BORN + 400 * DAY + 30 * M
    fire(mill, now)
    assert {name: len(past(mill, name, now)) for name in RULES} == {"minutely": 1, "hourly": 0, "daily": 0, "weekly": 0}, "only what is met"
    assert told(mill, "daily")[-1][2] == "missed: more than 100 from 2030-01-07T00:00:00Z on"


def test_b031_backfill_makes_as_many_as_it_may_and_the_latest(mill: Mill) -> None:
    put(mill, "daily", BORN, cron="0 0 * * *", on_missed=OnMissed.BACKFILL, backfill_limit=7)
    now = BORN + 400 * DAY
    fire(mill, now)
    last = at("2030-01-07 00:00") + 399 * DAY
    assert past(mill, "daily", now) == [last - n * DAY for n in range(6, -1, -1)]


def test_b031_ticks_ninety_seconds_apart_lose_nothing(mill: Mill) -> None:
    put(mill, "minutely", BORN)
    put(mill, "daily", BORN, cron="10 0 * * *", on_missed=OnMissed.SKIP)
    for n in range(40):
        fire(mill, BORN + n * 90 * S)
    expected = [at("2030-01-07 00:00") + n * M for n in range(59)]
    assert occurrences(mill, "minutely")[:59] == expected
    assert occurrences(mill, "daily") == [at("2030-01-07 00:10")]


@pytest.mark.parametrize("rule", OnMissed)
@pytest.mark.parametrize("overlap", Overlap)
def test_b031_every_pair_of_rules_comes_back_to_its_rhythm(mill: Mill, rule: OnMissed, overlap: Overlap) -> None:
    put(mill, "minutely", BORN, on_missed=rule, backfill_limit=5, overlap=overlap)
    now = BORN + 3 * DAY
    fire(mill, now)
    made = len(past(mill, "minutely", now))
    most = {OnMissed.SKIP: 1, OnMissed.RUN_ONCE: 1, OnMissed.BACKFILL: {Overlap.ALLOW: 5, Overlap.BUFFER_ONE: 2}.get(overlap, 1)}[rule]
    assert made == most
    while finish_all(mill, now):
        pass
    for n in range(1, 4):
        fire(mill, now + n * M)
        assert finish_all(mill, now + n * M + 30 * S) >= 1
    assert occurrences(mill, "minutely")[-1] >= now + (3 if overlap in (Overlap.ALLOW, Overlap.BUFFER_ONE) else 2) * M
    assert not mill.misplaced()
