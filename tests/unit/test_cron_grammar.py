"""What the fields mean: croniter's expansion of everything we accept, against plain ranges."""

import pytest

from tidemill.domain.cron import CronError, parse
from tidemill.domain.cron.fields import read_expression
from unit.cron_scan import SIZES

PLAIN = ["0", "0", "*", "*", "*"]
FIELDS = ["minute", "hour", "day-of-month", "month", "day-of-week"]
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


def values(index: int, text: str) -> set[int]:
    return set(read_expression(" ".join([*PLAIN[:index], text, *PLAIN[index + 1 :]])).values[index])


@pytest.mark.parametrize("index", range(5), ids=FIELDS)
def test_stars_and_starts_with_every_step(index: int) -> None:
    low, high = SIZES[index]
    assert values(index, "*") == set(range(low, high + 1))
    for step in range(1, high - low + 1):
        assert values(index, f"*/{step}") == set(range(low, high + 1, step))
        for start in {low, low + 1, (low + high) // 2, high - 1, high}:
            assert values(index, f"{start}/{step}") == set(range(start, high + 1, step))


@pytest.mark.parametrize("index", range(5), ids=FIELDS)
def test_ranges_with_and_without_step(index: int) -> None:
    low, high = SIZES[index]
    stride = 1 if high < 20 else 7
    for first in range(low, high + 1, stride):
        for last in range(first, high + 1, stride):
            assert values(index, f"{first}-{last}") == set(range(first, last + 1))
            for step in {1, 2, 3, high - low}:
                assert values(index, f"{first}-{last}/{step}") == set(range(first, last + 1, step))


def test_weekday_ranges_up_to_seven_end_on_sunday() -> None:
    for first in range(8):
        for step in range(1, 7):
            assert values(4, f"{first}-7/{step}") == {day % 7 for day in range(first, 8, step)}


def test_names_are_numbers_in_any_case() -> None:
    for number, name in enumerate(MONTHS, 1):
        assert values(3, name) == values(3, name.upper()) == {number}
    for number, name in enumerate(WEEKDAYS):
        assert values(4, name) == values(4, name.title()) == {number}
    assert values(3, "FEB-apr,Nov-12") == {2, 3, 4, 11, 12}
    assert values(4, "mon-FRI/2") == {1, 3, 5}
    assert values(4, "fri-7") == {5, 6, 0}


def test_lists_are_unions_also_with_a_star_inside() -> None:
    assert values(0, "1,1,5-7,*/30") == {0, 1, 5, 6, 7, 30}
    assert values(2, "5,*") == values(2, "*,5") == set(range(1, 32))


def test_the_star_rules_look_at_the_first_character_only() -> None:
    assert parse("0 0 5,* * 1", "UTC").describe().startswith("At 00:00 every day")
    assert parse("0 0 *,5 * 1", "UTC").describe().startswith("At 00:00 on Monday")
    assert read_expression("0,* 2 * * *").is_fixed_time
    assert not read_expression("*,0 2 * * *").is_fixed_time
    assert not read_expression("0 */4 * * *").is_fixed_time


@pytest.mark.parametrize("index", range(5), ids=FIELDS)
def test_numbers_and_steps_outside_of_the_field_are_refused(index: int) -> None:
    low, high = SIZES[index]
    top = 7 if index == 4 else high
    for text in (str(top + 1), f"{low}-{top + 1}", f"*/{high - low + 1}", "*/0", f"{low}/0", *([str(low - 1)] if low else [])):
        with pytest.raises(CronError) as caught:
            values(index, text)
        assert (caught.value.field, caught.value.part) == (FIELDS[index], text)


@pytest.mark.parametrize("index", range(5), ids=FIELDS)
def test_every_backward_range_is_refused(index: int) -> None:
    low, high = SIZES[index]
    for first in range(low + 1, high + 1):
        with pytest.raises(CronError) as caught:
            values(index, f"{first}-{low}")
        assert "backwards" in caught.value.reason


@pytest.mark.parametrize(
    ("expression", "rewritten"),
    [("0 22-2 * * *", "22-23,0-2"), ("0 23-2 * * *", "23,0-2"), ("0 0 * * SAT-SUN", "6-7"), ("0 0 * NOV-feb *", "11-12,1-2")],
)
def test_backward_range_comes_with_its_ascending_spelling(expression: str, rewritten: str) -> None:
    with pytest.raises(CronError) as caught:
        parse(expression, "UTC")
    assert rewritten in caught.value.hint
    legal = " ".join(rewritten if "-" in field else field for field in expression.split())
    assert parse(legal, "UTC").text == parse(legal.lower(), "UTC").text


def test_seven_with_a_step_is_refused_as_it_reads_two_ways() -> None:
    with pytest.raises(CronError) as caught:
        values(4, "7/2")
    assert caught.value.part == "7/2"


def test_256_characters_are_read_and_257_are_not() -> None:
    longest = ",".join(["0"] * 124) + " * * * *"
    assert len(longest + " ") == 256
    assert parse(longest + " ", "UTC").describe() == "At minute 0 of every hour, UTC time."
    with pytest.raises(CronError) as caught:
        parse(longest + "  ", "UTC")
    assert "257 characters, the bound is 256" in caught.value.reason


@pytest.mark.parametrize(
    ("expression", "looks_like"),
    [
        ("rate(5 minutes)", "every_ms"),
        ("every 5 minutes", "every_ms"),
        ("PT5M", "ISO 8601"),
        ("at(2027-01-01T00:00:00)", "run_at"),
        ("CRON_TZ=Europe/Berlin 0 0 * * *", "timezone"),
        ("TZ=UTC 0 0 * * *", "timezone"),
        ("@fortnightly", "@weekly"),
        ("0 0 * * 5L", "last weekday"),
        ("0 0 L * *", "last day"),
        ("0 0 15W * *", "nearest weekday"),
        ("0 0 * * 6#3", "nth weekday"),
        ("0 0 * * friday", "three letters"),
        ("0 0 * september *", "three letters"),
        ("H(0-9) 0 * * *", "Jenkins"),
        ("0~30 0 * * *", "OpenBSD"),
        ("0 24 * * *", "hour 0"),
        ("60 * * * *", "minute 0"),
        ("0 0 * * 8", "Monday is 1"),
    ],
)
def test_other_dialects_are_recognised(expression: str, looks_like: str) -> None:
    with pytest.raises(CronError) as caught:
        parse(expression, "UTC")
    assert looks_like in caught.value.hint
