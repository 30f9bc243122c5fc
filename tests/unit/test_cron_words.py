"""Descriptions in plain English."""

import pytest

from tidemill.domain.cron import parse


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("* * * * *", "Every minute, UTC time."),
        ("*/5 * * * *", "Every 5 minutes, UTC time."),
        ("*/45 * * * *", "At minutes 0 and 45 of every hour, UTC time."),
        ("0 * * * *", "At minute 0 of every hour, UTC time."),
        ("@hourly", "At minute 0 of every hour, UTC time."),
        ("30 2 * * *", "At 02:30 every day, UTC time."),
        ("0,30 9,17 * * 1-5", "At 09:00, 09:30, 17:00 and 17:30 on Monday to Friday, UTC time."),
        ("*/10 9-17 * * *", "Every 10 minutes of hours 9 to 17 every day, UTC time."),
        ("* 3 * * 0", "Every minute of hour 3 on Sunday, UTC time."),
        ("0 0 * * 5-7", "At 00:00 on Friday to Sunday, UTC time."),
        ("0 0 1 1,7 *", "At 00:00 on day 1 of the month, in January and July, UTC time."),
        ("0 0 13 * 5", "At 00:00 on day 13 of the month OR on Friday, either is enough, UTC time."),
        ("0 0 1-7,15 * 1,3", "At 00:00 on days 1 to 7 and 15 of the month OR on Monday and Wednesday, either is enough, UTC time."),
        ("0 0 */10 * 0,6", "At 00:00 on days 1, 11, 21 and 31 of the month AND only when that is a Saturday or Sunday, UTC time."),
        ("0 0 1-31 * 1", "At 00:00 every day, UTC time."),
        ("0 0 * 6-8 *", "At 00:00 every day, in June to August, UTC time."),
    ],
)
def test_expression_is_told_in_words(expression: str, text: str) -> None:
    assert parse(expression, "UTC").describe() == text


@pytest.mark.parametrize(
    ("on_gap", "on_fold", "words"),
    [
        ("fire_after", "first", ["fires once, right after the jump", "at the first only"]),
        ("skip", "second", ["forward does not fire", "at the second only"]),
        ("skip", "both", ["forward does not fire", "fires at both"]),
    ],
)
def test_policies_are_told_where_clocks_still_change(on_gap: str, on_fold: str, words: list[str]) -> None:
    text = parse("30 2 * * *", "Europe/Berlin", on_gap=on_gap, on_fold=on_fold).describe()
    assert text.startswith("At 02:30 every day, Europe/Berlin time. ")
    assert all(each in text for each in words)
    assert parse("30 2 * * *", "Asia/Kolkata", on_gap=on_gap, on_fold=on_fold).describe() == "At 02:30 every day, Asia/Kolkata time."


def test_wildcards_are_told_to_follow_the_wall_clock_whatever_the_policies() -> None:
    text = parse("*/15 2 * * *", "Europe/Berlin", on_gap="fire_after", on_fold="first").describe()
    assert text.endswith("A time skipped when clocks go forward does not fire; a time that comes twice when clocks go back fires at both.")
