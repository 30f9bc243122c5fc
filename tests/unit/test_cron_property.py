"""Random expressions in ten zones and three years, against a scan of every minute."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tidemill.domain.cron import CronError, parse
from unit.cron_scan import DAY, HOUR, SIZES, Meaning, clock_changes, scan, zone_info

ZONES = [
    "Australia/Lord_Howe",  # half an hour of summer time
    "Africa/Casablanca",  # changes around Ramadan, and none any more since 2026
    "Asia/Beirut",  # the gap is at midnight
    "America/Santiago",  # gap and fold at midnight, summer in January
    "Asia/Kathmandu",  # a quarter of an hour off
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Pacific/Chatham",
    "Africa/Cairo",
]
YEARS = (2026, 2028)
WINDOW = 2 * DAY


@st.composite
def terms(draw: st.DrawFn, low: int, high: int) -> tuple[str, frozenset[int]]:
    """One list entry and its values."""
    kind = draw(st.sampled_from(["value", "value", "range", "stepped-range", "stepped-start"]))
    first = draw(st.integers(low, high))
    if kind == "value":
        return str(first), frozenset([first])
    step = draw(st.integers(1, high - low))
    if kind == "stepped-start":
        return f"{first}/{step}", frozenset(range(first, high + 1, step))
    last = draw(st.integers(first, high))
    if kind == "range":
        return f"{first}-{last}", frozenset(range(first, last + 1))
    return f"{first}-{last}/{step}", frozenset(range(first, last + 1, step))


@st.composite
def fields(draw: st.DrawFn, low: int, high: int, *, stars: int) -> tuple[str, frozenset[int]]:
    """A field and its values; `stars` of ten are a plain star."""
    if draw(st.integers(1, 10)) <= stars:
        return "*", frozenset(range(low, high + 1))
    if draw(st.integers(1, 5)) == 1:
        step = draw(st.integers(1, high - low))
        return f"*/{step}", frozenset(range(low, high + 1, step))
    listed = draw(st.lists(terms(low, high), min_size=1, max_size=3))
    return ",".join(text for text, _ in listed), frozenset().union(*(values for _, values in listed))


@st.composite
def meanings(draw: st.DrawFn, hours: list[int] | None = None) -> Meaning:
    """An expression with what it means; most of its hours among `hours` where these are given, on nearly any day."""
    minute = draw(st.one_of(fields(*SIZES[0], stars=1), st.just(("0", frozenset([0]))), fields(*SIZES[0], stars=1)))
    hour = draw(fields(*SIZES[1], stars=2))
    if hours and draw(st.integers(1, 4)) > 1:
        chosen = draw(st.lists(st.sampled_from(hours), min_size=1, max_size=3))
        hour = ",".join(map(str, chosen)), frozenset(chosen)
    stars = (9, 9, 9) if hours and draw(st.booleans()) else (5, 8, 5)
    days = [draw(fields(*size, stars=many)) for size, many in zip(SIZES[2:], stars, strict=True)]
    both = [minute, hour, *days]
    return Meaning(" ".join(text for text, _ in both), tuple(values for _, values in both))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Meaning, str, datetime]:
    """An expression, a zone and the start of a window: mostly around a change and at its hours, else any of the three years."""
    zone = draw(st.sampled_from(ZONES))
    changes = clock_changes(zone, *YEARS)
    if changes and draw(st.integers(1, 5)) > 1:
        change = draw(st.sampled_from(changes))
        nearby = [(change + HOUR * count).astimezone(zone_info(zone)).hour for count in (-1, 0, 1)]
        skipped_or_next = [(hour + 1) % 24 for hour in nearby]
        return draw(meanings(sorted({*nearby, *skipped_or_next}))), zone, change - DAY
    # Few different starts, so that the wall clock of a window is scanned once and serves many examples.
    return draw(meanings()), zone, datetime(YEARS[0], 1, 1, tzinfo=UTC) + timedelta(days=277 * draw(st.integers(0, 2)))


def _plain(text: str) -> Meaning:
    sizes = [frozenset(range(low, high + 1)) for low, high in SIZES]
    values = [size if field == "*" else frozenset([int(field)]) for field, size in zip(text.split(), sizes, strict=True)]
    return Meaning(text, tuple(values))


@settings(max_examples=150)
@example((_plain("0 0 * * *"), "Asia/Beirut", datetime(2027, 3, 27, tzinfo=UTC)), "fire_after", "first")
@example((_plain("45 1 * * *"), "Australia/Lord_Howe", datetime(2027, 4, 2, tzinfo=UTC)), "fire_after", "second")
@example((_plain("30 23 * * 6"), "America/Santiago", datetime(2027, 4, 3, tzinfo=UTC)), "skip", "both")
@given(cases(), st.sampled_from(["fire_after", "skip"]), st.sampled_from(["first", "second", "both"]))
def test_fires_equal_a_scan_of_every_minute(case: tuple[Meaning, str, datetime], on_gap: str, on_fold: str) -> None:
    meaning, zone, start = case
    expected = scan(meaning, zone, start, start + WINDOW, on_gap=on_gap, on_fold=on_fold)
    if not meaning.is_possible:
        with pytest.raises(CronError, match="never comes"):
            parse(meaning.text, zone)
        return
    cron = parse(meaning.text, zone, on_gap=on_gap, on_fold=on_fold)
    assert cron.between(start, start + WINDOW, 10_000) == expected
    assert cron.upcoming(start, len(expected)) == expected
    _assert_steps_agree(meaning, zone, start, expected, on_gap, on_fold)


def _assert_steps_agree(meaning: Meaning, zone: str, start: datetime, fires: list[datetime], on_gap: str, on_fold: str) -> None:
    cron = parse(meaning.text, zone, on_gap=on_gap, on_fold=on_fold)
    pairs = list(pairwise(fires))
    for earlier, later in random.Random(0).sample(pairs, min(len(pairs), 25)):
        assert cron.next_after(earlier) == later
        assert cron.next_after(later - timedelta(microseconds=1)) == later
        assert cron.previous_before(later) == earlier
        assert cron.previous_before(earlier + timedelta(microseconds=1)) == earlier
    if fires:
        assert cron.next_after(start) == fires[0]
        assert cron.previous_before(start + WINDOW + timedelta(microseconds=1)) == fires[-1]
    before, after = cron.previous_before(start + timedelta(microseconds=1)), cron.next_after(start + WINDOW)
    assert before is None or before <= start
    assert after is None or after > start + WINDOW


@settings(max_examples=60)
@given(meanings([1, 2, 3, 23]), st.sampled_from(ZONES), st.integers(0, 600_000))
def test_going_back_and_forth_visits_the_same_fires(meaning: Meaning, zone: str, hours: int) -> None:
    start = datetime(2020, 1, 1, tzinfo=UTC) + HOUR * hours
    assume(meaning.is_possible)
    cron = parse(meaning.text, zone)
    ahead = cron.upcoming(start, 40)
    back = [ahead[-1]] if ahead else []
    while back and len(back) < len(ahead):
        found = cron.previous_before(back[-1])
        assert found is not None
        back.append(found)
    assert back[::-1] == ahead


def test_two_months_with_half_an_hour_less_equal_the_scan() -> None:
    any_day = (frozenset(range(1, 32)), frozenset(range(1, 13)), frozenset(range(7)))
    start, end = datetime(2027, 9, 1, tzinfo=UTC), datetime(2027, 11, 1, tzinfo=UTC)
    for meaning in (
        Meaning("15 2 * * *", (frozenset([15]), frozenset([2]), *any_day)),
        Meaning("*/20 1,2 * * *", (frozenset([0, 20, 40]), frozenset([1, 2]), *any_day)),
        Meaning("0 2 1-3 * 6", (frozenset([0]), frozenset([2]), frozenset([1, 2, 3]), any_day[1], frozenset([6]))),
    ):
        expected = scan(meaning, "Australia/Lord_Howe", start, end, on_gap="fire_after", on_fold="first")
        assert parse(meaning.text, "Australia/Lord_Howe").between(start, end, 100_000) == expected
