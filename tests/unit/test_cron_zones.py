"""Our reading of the zone data against the standard library's, for every zone of the pinned package."""

from datetime import UTC, datetime, timedelta
from importlib import resources

import pytest

from tidemill.domain.cron import CronError, parse, zone_data_release, zone_names
from tidemill.domain.cron.rule import read_rule
from tidemill.domain.cron.zones import FIRST_INSTANT, LAST_INSTANT, Zone, load_zone
from unit.cron_scan import zone_info

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SPOTS = [FIRST_INSTANT + 86_400 * 3, *range(-2_000_000_000, 6_000_000_000, 197_000_001), 100_000_000_000, LAST_INSTANT - 86_400 * 3]
YEAR_2050 = 2_524_608_000


def distinct_zones() -> list[str]:
    """One name for each different file: links are copies."""
    folder = resources.files("tzdata").joinpath("zoneinfo")
    files = {folder.joinpath(*name.split("/")).read_bytes(): name for name in sorted(zone_names())}
    return list(files.values())


def stdlib_offset(name: str, instant: int) -> int:
    offset = (EPOCH + timedelta(seconds=instant)).astimezone(zone_info(name)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def test_every_zone_has_the_offsets_that_the_standard_library_computes() -> None:
    assert len(zone_names()) > 590
    for name in distinct_zones():
        zone, instants = load_zone(name), list(SPOTS)
        change = zone.change_after(FIRST_INSTANT)
        while change is not None and change.at < YEAR_2050:
            assert change.before != change.after
            instants += [change.at - 1, change.at]
            change = zone.change_after(change.at)
        wrong = [instant for instant in instants if zone.segment(instant).offset != stdlib_offset(name, instant)]
        assert not wrong, f"{name}: {wrong[:3]}"


def test_stretches_of_every_zone_join_without_a_seam() -> None:
    for name in sorted(zone_names()):
        zone, segment = load_zone(name), load_zone(name).segment(FIRST_INSTANT)
        while segment.end < YEAR_2050:
            later = zone.segment(segment.end)
            assert (later.start, later.before, segment.following) == (segment.end, segment.offset, later.offset), name
            segment = later


def test_no_zone_changes_twice_within_its_own_jump() -> None:
    """What firing.py leans on: a local time is skipped or repeated by one change, never by two at once."""
    for name in zone_names():
        zone = load_zone(name)
        change = zone.change_after(FIRST_INSTANT)
        while change is not None and change.at < YEAR_2050:
            following = zone.change_after(change.at)
            if following is not None:
                jumps = abs(change.after - change.before) + abs(following.after - following.before)
                assert following.at - change.at > jumps, name
            change = following


def test_release_is_named_as_iana_names_it() -> None:
    release = zone_data_release()
    assert len(release) == 5
    assert release[:4].isdigit()
    assert release[4].islower()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
        ("utc", "UTC"),
        ("+05:30", "fixed offset"),
        ("UTC+2", "fixed offset"),
        ("", "IANA name"),
        ("../../etc/passwd", "IANA name"),
        ("Europe", "IANA name"),
        ("tzdata.zi", "IANA name"),
        ("Europe/Berlin\x00", "IANA name"),
        ("x" * 100_000, "IANA name"),
    ],
)
def test_unknown_zone_is_refused_with_the_way_out(name: str, hint: str) -> None:
    with pytest.raises(CronError) as caught:
        parse("0 0 * * *", name)
    assert caught.value.field == "timezone"
    assert caught.value.faults[0].loc == ("timezone",)
    assert hint in caught.value.hint
    assert len(str(caught.value)) < 200


def test_footers_of_every_form_are_read() -> None:
    assert read_rule("") is None
    assert read_rule("<+0545>-5:45") is None
    assert read_rule("XXX3EDT4,0/0,J365/23") is None  # summer time all year, as RFC 9636 writes it
    berlin, days = read_rule("CET-1CEST,M3.5.0,M10.5.0/3"), read_rule("STD5DST,J60/0,300/-1:30")
    assert berlin is not None
    assert days is not None
    utc = [[EPOCH + timedelta(seconds=change.at) for change in rule.changes(2028)] for rule in (berlin, days)]
    assert [f"{change:%m-%dT%H:%M}" for change in utc[0]] == ["03-26T01:00", "10-29T01:00"]
    assert [f"{change:%m-%dT%H:%M}" for change in utc[1]] == ["03-01T05:00", "10-27T02:30"]  # J60 skips 29 February, 300 does not


@pytest.mark.parametrize("footer", ["CET", "CET-1CEST", "CET-1CEST,M3.5.0", "1234", "CET-1;x"])
def test_footer_that_is_no_rule_is_refused(footer: str) -> None:
    with pytest.raises(ValueError, match="POSIX TZ"):
        read_rule(footer)


def test_file_that_is_no_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="TZif"):
        Zone("x", b"TZif" + bytes(60))
