"""The named cases about cron, each by its id. The instants are those of the cron table."""

import time
import zoneinfo
from datetime import UTC, date, datetime, timedelta
from importlib import resources
from itertools import pairwise
from pathlib import Path

import pytest

from tidemill.domain.cron import Cron, CronError, parse, zone_data_release
from unit.cron_scan import zone_info
from unit.cron_table import BY_ID

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
FORMS = "write five fields: minute hour day-of-month month day-of-week"


def tabled(*ids: str) -> list[Cron]:
    """The crons of these lines, each shown to fire as tabled."""
    crons: list[Cron] = []
    for row in (BY_ID[id_] for id_ in ids):
        cron = parse(row.expression, row.zone, after=row.after)
        assert cron.upcoming(row.after, len(row.fires)) == row.fires, row.id
        crons.append(cron)
    return crons


def refusal(expression: str, timezone: str = "UTC") -> CronError:
    with pytest.raises(CronError) as caught:
        parse(expression, timezone)
    return caught.value


def local_dates(fires: list[datetime], zone: str) -> list[date]:
    return [fire.astimezone(zone_info(zone)).date() for fire in fires]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize("id_", ["C01", "C08", "C09", "C09b", "D51", "E6", "E9"])
def test_b010_fixed_time_inside_the_spring_gap_fires_once_right_after_it(id_: str) -> None:
    tabled(id_)


@pytest.mark.parametrize(("id_", "gap"), [("C01", "2027-03-28"), ("C08", "2027-03-14"), ("D51", "2027-03-28")])
def test_b010_every_local_date_has_one_fire_and_the_skip_rule_drops_only_the_gap(id_: str, gap: str) -> None:
    row = BY_ID[id_]
    for on_gap, missing in (("fire_after", set()), ("skip", {date.fromisoformat(gap)})):
        cron = parse(row.expression, row.zone, on_gap=on_gap)
        dates = local_dates(cron.between(row.after - 5 * DAY, row.after + 5 * DAY, 100), row.zone)
        assert len(dates) == len(set(dates))
        assert {min(dates) + DAY * count for count in range((max(dates) - min(dates)).days + 1)} - set(dates) == missing


def test_b010_weekly_sunday_job_loses_no_fortnight() -> None:
    fires = parse("30 2 * * 0", "America/New_York").upcoming(at("2027-03-01T00:00"), 30)
    assert max(later - earlier for earlier, later in pairwise(fires)) < 8 * DAY


@pytest.mark.parametrize("id_", ["C02", "C07", "C39", "E8", "E16", "D52", "C42", "C41"])
def test_b011_fixed_time_inside_the_autumn_overlap_fires_at_its_first_occurrence(id_: str) -> None:
    tabled(id_)


def test_b011_second_pass_of_the_repeated_hour_has_no_fire() -> None:
    for expression in ("30 2 * * *", "0-59 2 * * *", "5 2 * * 0"):
        cron = parse(expression, "Europe/Berlin")
        assert cron.between(at("2027-10-31T00:59"), at("2027-10-31T01:59"), 100) == []
        dates = local_dates(cron.between(at("2027-10-31T00:00") - MINUTE, at("2027-11-01T00:00"), 100), "Europe/Berlin")
        assert set(dates) == {date(2027, 10, 31)}


@pytest.mark.parametrize("id_", ["C03", "C04", "C40", "C05", "C06", "E5", "E7"])
def test_b012_wildcard_schedules_follow_the_wall_clock_minute_by_minute(id_: str) -> None:
    tabled(id_)


@pytest.mark.parametrize(("expression", "step", "count"), [("0 * * * *", HOUR, 8_760), ("*/5 * * * *", 5 * MINUTE, 105_120)])
def test_b012_real_elapsed_time_is_kept_through_a_whole_year(expression: str, step: timedelta, count: int) -> None:
    cron = parse(expression, "Europe/Berlin")
    fires = cron.between(at("2026-12-31T23:00") - MINUTE, at("2027-12-31T22:59"), 200_000)
    assert len(fires) == count
    assert {later - earlier for earlier, later in pairwise(fires)} == {step}


@pytest.mark.parametrize("id_", ["C14", "E20", "D39", "D40", "D41", "C15", "C15b", "C15c"])
def test_b014_zones_whose_rules_changed_follow_the_pinned_release(id_: str) -> None:
    tabled(id_)


def test_b014_pinned_release_knows_this_years_changes() -> None:
    assert zone_data_release() >= "2026c"
    noon = at("2026-11-29T12:00")
    assert parse("0 12 * * *", "Africa/Casablanca").next_after(noon - SECOND) == noon  # UTC+0 since 2026-09-20
    assert parse("0 5 * * *", "America/Vancouver").next_after(noon - SECOND) == noon  # stays at UTC-7


def test_b014_zone_files_of_the_system_are_never_read(tmp_path: Path) -> None:
    forged = tmp_path / "Pacific" / "Apia"
    forged.parent.mkdir()
    forged.write_bytes(resources.files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes())
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    try:
        zoneinfo.ZoneInfo.clear_cache()
        noon = datetime(2027, 6, 1, 12, tzinfo=zoneinfo.ZoneInfo("Pacific/Apia"))
        assert noon.utcoffset() == 9 * HOUR  # the standard library was taken in, so the forgery works
        assert parse("0 12 * * *", "Pacific/Apia").next_after(at("2027-06-01T00:00")) == at("2027-06-01T23:00")
    finally:
        zoneinfo.reset_tzpath()
        zoneinfo.ZoneInfo.clear_cache()


@pytest.mark.parametrize(
    "id_", ["C16", "C16b", "D34", "D35", "E11", "E19", "D36", "D37", "E14", "C38", "D31", "E15", "E10", "D32", "D33", "E17"]
)
def test_b017_days_and_hours_are_judged_in_the_schedules_zone(id_: str) -> None:
    tabled(id_)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_b017_local_hour_holds_on_every_day_of_the_year(zone: str) -> None:
    fires = parse("0 8 * * *", zone).upcoming(at("2027-01-01T00:00"), 365)
    assert {fire.astimezone(zone_info(zone)).strftime("%H:%M") for fire in fires} == {"08:00"}


@pytest.mark.parametrize("id_", ["D01", "D03", "D02b", "D21"])
def test_b018_both_day_fields_mean_or(id_: str) -> None:
    (cron,) = tabled(id_)
    assert " OR " in cron.describe()


def test_b018_thirteenth_or_friday_has_these_six_runs() -> None:
    (cron,) = tabled("D01")
    days = ["2026-12-04", "2026-12-11", "2026-12-13", "2026-12-18", "2026-12-25", "2027-01-01"]
    assert [f"{fire:%Y-%m-%d}" for fire in cron.upcoming(BY_ID["D01"].after, 6)] == days


def test_b018_a_star_in_either_day_field_means_and() -> None:
    odd_mondays = parse("0 0 */2 * 1", "UTC")
    assert " AND " in odd_mondays.describe()
    assert [f"{fire:%m-%d}" for fire in odd_mondays.upcoming(at("2026-11-29T14:00"), 3)] == ["12-07", "12-21", "01-11"]
    first_on_even_weekday = parse("0 0 1 * */2", "UTC")
    assert [f"{fire:%m-%d}" for fire in first_on_even_weekday.upcoming(at("2026-11-29T14:00"), 3)] == ["12-01", "04-01", "05-01"]


@pytest.mark.parametrize("id_", ["D19", "D19b", "D19e"])
def test_b020_dates_that_never_come_are_refused_naming_the_day_field(id_: str) -> None:
    began = time.thread_time()
    error = refusal(BY_ID[id_].expression)
    assert time.thread_time() - began < 1
    assert error.field == "day-of-month"
    assert error.part == BY_ID[id_].expression.split()[2]
    assert "day-of-month never comes" in str(error)


def test_b020_rare_dates_are_legal() -> None:
    tabled("C18", "D29", "D30", "C18c", "D38")


def test_b020_impossible_day_with_a_weekday_is_an_or_and_so_legal() -> None:
    mondays = parse("0 0 30 2 1", "UTC", after=at("2026-11-29T00:00"))
    assert mondays.next_after(at("2026-11-29T00:00")) == at("2027-02-01T00:00")


def test_b020_hour_that_only_exists_inside_the_yearly_gap_is_refused_at_creation() -> None:
    # Clocks on Easter Island jump from 22:00 to 23:00 on the first Saturday of September; the first is always that one.
    now = at("2026-11-29T00:00")
    for expression, on_gap in (("*/15 22 */30 9 6", "fire_after"), ("30 22 */30 9 6", "skip")):
        assert parse(expression, "Pacific/Easter", on_gap=on_gap).next_after(now) is None
        with pytest.raises(CronError) as caught:
            parse(expression, "Pacific/Easter", on_gap=on_gap, after=now)
        assert "41 years" in caught.value.reason
    assert parse("30 22 */30 9 6", "Pacific/Easter", after=now).next_after(now) == at("2029-09-02T04:00")


@pytest.mark.parametrize("id_", ["D10", "D11", "D12", "D42", "D43", "D44", "D17c", "D18", "D18b", "D18c", "D18d", "D18e", "D18f"])
def test_b022_steps_names_and_sunday_as_seven_mean_what_they_say(id_: str) -> None:
    tabled(id_)


def test_b022_zero_and_seven_are_one_day_with_one_fire() -> None:
    fires = [parse(f"0 0 * * {sunday}", "UTC").upcoming(at("2026-11-29T14:10"), 8) for sunday in ("0", "7", "0,7", "sun", "SUN,7", "7-7")]
    assert all(each == fires[0] for each in fires)
    assert len(set(fires[0])) == 8


def test_b022_every_second_day_from_tuesday_never_falls_on_a_sunday() -> None:
    (cron,) = tabled("D18d")
    assert {fire.strftime("%a") for fire in cron.upcoming(at("2026-11-29T14:10"), 50)} == {"Tue", "Thu", "Sat"}


@pytest.mark.parametrize(
    ("id_", "field", "part"),
    [
        ("D13", "minute", "*/90"),
        ("D13b", "minute", "*/60"),
        ("D14", "minute", "*/0"),
        ("D15", "minute", "*/-5"),
        ("D16", "hour", "22-2"),
        ("D17", "day-of-week", "FRI-MON"),
        ("D17b", "day-of-week", "SAT-SUN"),
        ("D20", "day-of-month", "32"),
        ("D20b", "day-of-month", "0"),
        ("D20c", "minute", "60"),
        ("D20d", "hour", "24"),
        ("D20e", "month", "13"),
        ("D20f", "month", "0"),
        ("D20g", "day-of-week", "8"),
    ],
)
def test_b022_bad_steps_and_ranges_are_refused_with_field_and_part(id_: str, field: str, part: str) -> None:
    error = refusal(BY_ID[id_].expression)
    assert (error.field, error.part) == (field, part)


@pytest.mark.parametrize(
    ("id_", "looks_like"),
    [
        ("D23", "seconds first"),
        ("D23b", "AWS cron with a year"),
        ("D23c", "Sunday is 1"),
        ("D23d", "seconds first"),
        ("D24u", "a year as sixth field"),
        ("D22e", "@reboot"),
        ("D22f", "every_ms"),
    ],
)
def test_b024_foreign_forms_are_refused_with_what_they_look_like(id_: str, looks_like: str) -> None:
    assert looks_like in refusal(BY_ID[id_].expression).hint


@pytest.mark.parametrize("expression", ["cron(0 9 ? * MON-FRI *)", "cron(0 12 * * ? *)", "0 0 12 ? * MON 2027", "* * * * * * *"])
def test_b024_aws_and_quartz_forms_say_the_five_fields(expression: str) -> None:
    assert FORMS in refusal(expression).hint


def test_b024_aliases_are_case_insensitive_and_zone_aware() -> None:
    tabled("D22", "D22b", "D22c", "D22d", "E14")
    assert parse("@MONTHLY", "Europe/Berlin").text == parse("0 0 1 * *", "Europe/Berlin").text


GARBAGE = [row_id for row_id in BY_ID if row_id.startswith("D24") and not BY_ID[row_id].fires]
MORE_GARBAGE = {
    "no-break-space": "0\u00a00 * * *",
    "no-break-space-between-fields": "0 0\u00a0* * *",
    "nul": "0 0 * * *\x00",
    "newline": "0 0 *\n* *",
    "trailing-newline": "0 0 * * *\n",
    "vertical-tab": "0\x0b0 * * *",
    "many-terms": ",".join(["1"] * 20_000) + " * * * *",
    "long": "0 " * 200,
    "huge-step": "*/1000000000000 * * * *",
    "huge-number": f"{'9' * 200} * * * *",
    "superscript": "\u00b2 * * * *",
    "hash": "0 0 * * 1#2",
    "last": "0 0 L * *",
    "weekday-near": "0 0 15W * *",
    "random-range": "R(0-10) * * * *",
    "hashed-step": "H/15 * * * *",
    "question": "0 0 * * ?",
    "negative": "-1 * * * *",
    "dash": "- * * * *",
    "slash": "/ * * * *",
    "trailing-dash": "1- * * * *",
    "trailing-slash": "1/ * * * *",
    "star-value": "*5 * * * *",
    "value-star": "5* * * * *",
    "star-range": "*-* * * * *",
    "month-in-weekday": "0 0 * * jan",
    "name-in-hour": "0 mon * * *",
    "full-name": "0 0 * * monday",
    "only-blanks": " \t ",
    "lone-at": "@",
    "alias-with-more": "@daily 5",
    "percent": "0 0 * * *%",
    "surrogate": "\ud800 * * * *",
}


@pytest.mark.parametrize("id_", [*GARBAGE, *MORE_GARBAGE])
def test_b025_garbage_is_refused_shortly_quickly_and_without_echo(id_: str) -> None:
    expression = MORE_GARBAGE[id_] if id_ in MORE_GARBAGE else BY_ID[id_].expression
    error = refusal(expression)
    assert len(str(error)) < 250
    assert str(error).isascii()
    assert str(error).isprintable()
    assert error.part is None or (len(error.part) <= 32 and error.part.isascii() and error.part.isprintable())
    assert min(_seconds_to_refuse(expression) for _ in range(3)) < 0.05


def _seconds_to_refuse(expression: str) -> float:
    began = time.thread_time()
    refusal(expression)
    return time.thread_time() - began


def test_b025_accepted_expressions_give_the_same_instants_at_every_look() -> None:
    for row in BY_ID.values():
        if row.fires:
            looks = [parse(row.expression, row.zone).upcoming(row.after, 5) for _ in range(3)]
            assert looks[0] == looks[1] == looks[2]


@pytest.mark.parametrize("expression", ["05 08 * * *", " 5 8 * * * ", "\t5\t 8 *  * *", "005 8 * * *"])
def test_b025_blanks_and_leading_zeros_are_accepted(expression: str) -> None:
    assert parse(expression, "UTC").text == "5 8 * * *"
