"""Which errors are one kind: what differs from job to job is masked, what tells kinds apart stays."""

import pytest
from psycopg import Connection

SAME = [
    ("order 17 is gone", "order 18,200 is gone", "order <n> is gone"),
    ("no user 'ann'", "no user 'bob smith'", "no user <text>"),
    ('key "a-1" is held', 'key "b"  is\nheld', "key <text> is held"),
    ("job 01900000-0000-7000-8000-000000000002 timed out", "job 019A0000-0000-7000-8000-00000000000F timed out", "job <uuid> timed out"),
    ("at 0x7f1a22", "at 0xdeadbeef", "at <hex>"),
    ("commit 9fceb02d0ae598e95dc970b74767f19372d61af8 is unknown", "commit 1fceb02d0ae5 is unknown", "commit <hex> is unknown"),
    ("due 2026-11-29T12:00:00.5Z", "due 2027-01-01T00:00:00Z", "due <n>T<n>Z"),
    ("bad ids [1, 2, 3]", "bad ids [7, 8]", "bad ids [<n>, …]"),
    ("worker-12 said no", "worker-7 said no", "worker-<n> said no"),
    ("took 1.5s of 3s", "took 20s of 3.25s", "took <n>s of <n>s"),
    ("x" * 2000, "x" * 3000, "x" * 500),
    ("a\x07b", "ab", "ab"),
]


def masked(conn: Connection, text: str | None) -> str | None:
    row = conn.execute("select tidemill.masked_error(%s)", [text]).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(("one", "other", "shown"), SAME)
def test_what_differs_from_job_to_job_is_masked(conn: Connection, one: str, other: str, shown: str) -> None:
    assert masked(conn, one) == shown
    assert masked(conn, other) == shown
    groups = conn.execute("select tidemill.error_group('E', %s) = tidemill.error_group('E', %s)", [one, other]).fetchone()
    assert groups == (True,)


@pytest.mark.parametrize("text", ["can't open the file because it's locked", "deadbeef is a word", "utf-x", "plain words", "", "é — 漢字"])
def test_words_are_left_alone(conn: Connection, text: str) -> None:
    assert masked(conn, text) == text


def test_class_and_message_tell_kinds_apart_and_nothing_is_a_kind_of_its_own(conn: Connection) -> None:
    pairs = [("A", "x"), ("B", "x"), ("A", "y"), ("A", None), (None, "x"), (None, None), ("A", "'q'"), ("Ax", ""), ("", "Ax")]
    kinds = {bytes(conn.execute("select tidemill.error_group(%s, %s)", pair).fetchone()[0]) for pair in pairs}
    assert len(kinds) == len(pairs)
    assert {len(kind) for kind in kinds} == {16}


def test_a_long_hostile_message_is_masked_in_no_time(conn: Connection) -> None:
    hostile = ["'" * 8000, '"a' * 4000, "0x" * 4000, "1," * 4000, "a1" * 4000, "<n>, " * 1600, "12345678-1234-" * 600, " \n" * 4000]
    conn.execute("set statement_timeout = '2s'")
    for text in hostile:
        found = masked(conn, text)
        assert found is not None
        assert len(found) <= 500
