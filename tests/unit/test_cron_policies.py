"""Gap and fold policies, and the answers at the edges: strictly later, open and closed ends, far years."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest

from tidemill.domain.cron import CronError, OnFold, OnGap, parse

MS = timedelta(milliseconds=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("on_fold", "fires"),
    [
        ("first", ["2027-10-31T00:30", "2027-11-01T01:30"]),
        ("second", ["2027-10-31T01:30", "2027-11-01T01:30"]),
        ("both", ["2027-10-31T00:30", "2027-10-31T01:30"]),
    ],
)
def test_fold_policy_chooses_the_occurrence(on_fold: str, fires: list[str]) -> None:
    cron = parse("30 2 * * *", "Europe/Berlin", on_fold=on_fold)
    assert cron.upcoming(at("2027-10-30T12:00"), 2) == [at(fire) for fire in fires]


@pytest.mark.parametrize("on_fold", list(OnFold))
@pytest.mark.parametrize("on_gap", list(OnGap))
def test_policies_do_not_touch_wildcard_schedules(on_gap: OnGap, on_fold: OnFold) -> None:
    for expression in ("*/30 * * * *", "30 */2 * * *", "*/30 2 * * *"):
        plain = parse(expression, "Europe/Berlin")
        chosen = parse(expression, "Europe/Berlin", on_gap=on_gap, on_fold=on_fold)
        for start in ("2027-03-27T12:00", "2027-10-30T12:00"):
            assert chosen.upcoming(at(start), 60) == plain.upcoming(at(start), 60)


def test_several_times_in_one_gap_collapse_onto_one_fire() -> None:
    cron = parse("0,15,30,45 2 * * *", "Europe/Berlin")
    assert cron.between(at("2027-03-28T00:30"), at("2027-03-28T02:30"), 100) == [at("2027-03-28T01:00")]


def test_gap_and_fold_across_midnight_are_judged_by_the_local_date() -> None:
    santiago = parse("0 0 * * *", "America/Santiago")  # 2027-09-05T00:00 does not exist, 24:00 becomes 01:00
    assert santiago.upcoming(at("2027-09-04T12:00"), 2) == [at("2027-09-05T04:00"), at("2027-09-06T03:00")]
    saturday = parse("30 23 * * 6", "America/Santiago")  # 2027-04-03T23:30 comes twice
    assert saturday.upcoming(at("2027-04-03T12:00"), 2) == [at("2027-04-04T02:30"), at("2027-04-11T03:30")]
    both = parse("30 23 * * 6", "America/Santiago", on_fold="both")
    assert both.upcoming(at("2027-04-03T12:00"), 2) == [at("2027-04-04T02:30"), at("2027-04-04T03:30")]


def test_a_skipped_day_fires_once_at_its_end() -> None:
    apia = parse("30 2,14 * * *", "Pacific/Apia")  # Samoa had no 30 December 2011
    fires = apia.upcoming(at("2011-12-29T13:00"), 4)
    assert fires == [at("2011-12-30T00:30"), at("2011-12-30T10:00"), at("2011-12-30T12:30"), at("2011-12-31T00:30")]
    friday = parse("30 2 30 12 *", "Pacific/Apia", on_gap="skip")
    assert friday.upcoming(at("2011-01-01T00:00"), 1) == [at("2012-12-29T12:30")]


def test_half_hour_gap_and_fold_move_by_half_an_hour() -> None:
    gap = parse("15 2 * * *", "Australia/Lord_Howe")
    assert gap.upcoming(at("2027-10-02T12:00"), 2) == [at("2027-10-02T15:30"), at("2027-10-03T15:15")]
    fold = parse("45 1 * * *", "Australia/Lord_Howe", on_fold="both")
    assert fold.upcoming(at("2027-04-03T12:00"), 3) == [at("2027-04-03T14:45"), at("2027-04-03T15:15"), at("2027-04-04T15:15")]


def test_next_is_strictly_later_to_the_microsecond() -> None:
    cron, noon = parse("0 12 * * *", "UTC"), at("2026-11-30T12:00")
    assert cron.next_after(noon) == noon + timedelta(days=1)
    assert cron.next_after(noon - MS) == noon
    assert cron.next_after(noon + MS) == noon + timedelta(days=1)
    assert cron.previous_before(noon) == noon - timedelta(days=1)
    assert cron.previous_before(noon + MS) == noon
    assert cron.previous_before(noon - MS) == noon - timedelta(days=1)


def test_adjoining_windows_share_no_fire_and_lose_none() -> None:
    cron = parse("*/7 * * * *", "Europe/Berlin")
    cuts = [at("2027-03-28T00:00") + timedelta(minutes=7 * count, seconds=count % 3) for count in range(30)]
    pieces = [fire for start, end in pairwise(cuts) for fire in cron.between(start, end, 100)]
    assert pieces == cron.between(cuts[0], cuts[-1], 1000)


def test_between_stops_at_its_limit_and_is_empty_for_an_empty_window() -> None:
    cron, start = parse("* * * * *", "UTC"), at("2027-01-01T00:00")
    assert len(cron.between(start, start + timedelta(days=9), 17)) == 17
    assert cron.between(start, start + timedelta(days=9), 0) == []
    assert cron.between(start, start, 10) == []
    assert cron.between(start, start - timedelta(days=1), 10) == []


def test_moments_in_any_offset_are_understood_and_answers_are_utc() -> None:
    india = timezone(timedelta(hours=5, minutes=30))
    found = parse("0 12 * * *", "UTC").next_after(datetime(2027, 1, 1, 17, 29, tzinfo=india))
    assert found == at("2027-01-01T12:00")
    assert found.tzinfo is UTC


def test_naive_moments_are_refused() -> None:
    cron, naive = parse("0 12 * * *", "UTC"), datetime(2027, 1, 1)  # noqa: DTZ001 - to be refused
    for ask in (cron.next_after, cron.previous_before, lambda when: cron.transitions(when, 1), lambda when: cron.upcoming(when, 1)):
        with pytest.raises(ValueError, match="aware"):
            ask(naive)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/Santiago"])
def test_the_ends_of_the_calendar_are_answered(zone: str) -> None:
    cron = parse("* * * * *", zone)
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert cron.next_after(last) is None
    assert cron.previous_before(first) is None
    assert cron.upcoming(last - timedelta(days=2), 10_000)[-1] > last - timedelta(days=1)
    assert cron.next_after(first) is not None
    assert cron.previous_before(last) is not None
    assert cron.transitions(last, 3) == []
    leap_days = parse("0 0 29 2 *", zone).upcoming(at("2026-11-29T00:00"), 5_000)
    assert len(leap_days) == 1993 - 60  # every fourth year from 2028 to 9996, less the centuries that are none


def test_an_equal_range_is_its_one_value_and_not_the_whole_field() -> None:
    for expression in ("5-5 8-8 * * 1-1", "5-5/3 8 * * mon-mon", "5 8-8/2 * * 1-1/4"):
        assert parse(expression, "UTC").text == "5 8 * * 1"


def test_text_is_equal_for_equal_spellings() -> None:
    spellings = ["0 0 * jan-mar Mon,WED", " 0\t0 * 1-3 1,3 ", "00 0 * JAN-3 mon,3"]
    assert {parse(spelling, "UTC").text for spelling in spellings} == {"0 0 * 1-3 1,3"}


@pytest.mark.parametrize("field", ["on_gap", "on_fold"])
def test_unknown_policy_is_refused_with_the_choices(field: str) -> None:
    with pytest.raises(CronError) as caught:
        parse("0 0 * * *", "UTC", on_gap="never" if field == "on_gap" else "skip", on_fold="never" if field == "on_fold" else "both")
    assert (caught.value.field, caught.value.part) == (field, "never")
    assert caught.value.faults[0].loc == (field,)
    assert ("fire_after, skip" if field == "on_gap" else "first, second, both") in caught.value.hint


def test_transitions_tell_gaps_and_folds_with_both_wall_clocks() -> None:
    spring, autumn = parse("0 0 * * *", "Europe/Berlin").transitions(at("2027-01-01T00:00"), 2)
    assert (spring.at, spring.kind) == (at("2027-03-28T01:00"), "gap")
    assert (f"{spring.local_before:%H:%M}", f"{spring.local_after:%H:%M}") == ("02:00", "03:00")
    assert (autumn.at, autumn.kind) == (at("2027-10-31T01:00"), "fold")
    assert (autumn.offset_before, autumn.offset_after) == (timedelta(hours=2), timedelta(hours=1))
    assert parse("0 0 * * *", "Europe/Berlin").transitions(spring.at, 1) == [autumn]
    assert parse("0 0 * * *", "Asia/Kolkata").transitions(at("2027-01-01T00:00"), 3) == []
