"""Interval schedules: phase from the anchor, real time, the same answers as a cron's."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.domain.cron import CronError, Every, Timetable, parse

T0 = datetime(2027, 3, 28, 0, 0, 0, 250_000, tzinfo=UTC)
FAR = st.timedeltas(timedelta(days=-13_000), timedelta(days=45_000)).map(lambda distance: T0 + distance)


@given(st.integers(1_000, 40_000_000_000), FAR, FAR)
def test_neighbours_of_any_moment_are_one_interval_apart_and_in_phase(every_ms: int, anchor: datetime, moment: datetime) -> None:
    every, step = Every(every_ms, anchor), timedelta(milliseconds=every_ms)
    after, before = every.next_after(moment), every.previous_before(moment)
    assert after is not None
    assert before is not None
    assert before < moment < after
    assert (after - anchor) % step == timedelta(0)
    assert after - before == (2 * step if (moment - anchor) % step == timedelta(0) else step)
    assert every.between(before - step, after, 10) == every.upcoming(before - step, len(every.between(before - step, after, 10)))


def test_next_is_strictly_later_and_between_is_open_then_closed() -> None:
    every, step = Every(90_000, T0), timedelta(seconds=90)
    assert every.next_after(T0) == T0 + step
    assert every.previous_before(T0) == T0 - step
    assert every.next_after(T0 - timedelta(microseconds=1)) == T0
    assert every.between(T0, T0 + 3 * step, 100) == [T0 + step, T0 + 2 * step, T0 + 3 * step]
    assert every.between(T0, T0 + 300 * step, 2) == [T0 + step, T0 + 2 * step]
    assert every.between(T0, T0, 5) == []
    assert every.upcoming(T0, 0) == []


def test_a_day_is_24_hours_through_a_clock_change() -> None:
    fires = Every(86_400_000, T0).upcoming(T0, 3)
    assert [fire - T0 for fire in fires] == [timedelta(hours=24), timedelta(hours=48), timedelta(hours=72)]


def test_answers_are_utc_whatever_the_anchor_is_written_in() -> None:
    anchor = T0.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert Every(1_000, anchor).upcoming(T0, 2) == Every(1_000, T0).upcoming(T0, 2)
    assert all(fire.tzinfo is UTC for fire in Every(1_000, anchor).upcoming(T0, 2))


def test_calendar_ends_are_answered() -> None:
    every = Every(3_600_000, T0)
    assert every.next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert every.previous_before(datetime.min.replace(tzinfo=UTC)) is None
    assert len(every.upcoming(datetime.max.replace(tzinfo=UTC) - timedelta(hours=3), 100)) == 3


@pytest.mark.parametrize("every_ms", [0, -1, 999, 41 * 366 * 86_400_000 + 1, 10**30])
def test_interval_out_of_bounds_is_refused_with_value_and_bounds(every_ms: int) -> None:
    with pytest.raises(CronError) as caught:
        Every(every_ms, T0)
    assert caught.value.field == "every_ms"
    assert caught.value.part is not None
    assert "between 1000 and" in caught.value.reason


@pytest.mark.parametrize("every_ms", [True, 1500.0, "60000", None])
def test_interval_that_is_no_whole_number_is_refused(every_ms: object) -> None:
    with pytest.raises(CronError, match="whole number"):
        Every(every_ms, T0)


def test_naive_anchor_and_moments_are_refused() -> None:
    with pytest.raises(CronError, match="offset"):
        Every(1_000, datetime(2027, 1, 1))  # noqa: DTZ001 - to be refused
    with pytest.raises(ValueError, match="aware"):
        Every(1_000, T0).next_after(datetime(2027, 1, 1))  # noqa: DTZ001 - to be refused


@pytest.mark.parametrize(
    ("every_ms", "words"),
    [
        (1_000, "1 second"),
        (90_000, "1 minute and 30 seconds"),
        (1_500, "1 second and 500 milliseconds"),
        (172_800_000, "48 hours"),
        (3_661_001, "1 hour, 1 minute, 1 second and 1 millisecond"),
    ],
)
def test_interval_is_told_in_words(every_ms: int, words: str) -> None:
    assert Every(every_ms, T0).describe().startswith(f"Every {words}, in real time")


def test_cron_and_interval_answer_the_same_questions() -> None:
    timetables: list[Timetable] = [Every(60_000, datetime(2027, 1, 1, tzinfo=UTC)), parse("* * * * *", "Asia/Kathmandu")]
    interval, cron = timetables
    assert interval.upcoming(T0, 100) == cron.upcoming(T0, 100)
    assert interval.between(T0, T0 + timedelta(hours=1), 7) == cron.between(T0, T0 + timedelta(hours=1), 7)
    assert interval.previous_before(T0) == cron.previous_before(T0)
    assert interval.transitions(T0, 3) == cron.transitions(T0, 3) == []
