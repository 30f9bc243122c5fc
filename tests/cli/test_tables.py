"""Tables in narrow terminals: ids stay whole, states stay, texts give way, and a row takes two lines rather than lose a column."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tidemill.cli.audit import differences
from tidemill.cli.tables import GAP, LEAST, lay_out

ID = str(uuid.UUID(int=7))
JOBS = ("id", "type", "queue", "state", "attempts", "due", "created")


def job(job_type: str = "mail.send") -> tuple[str, ...]:
    return (ID, job_type, "default", "dead_letter", "1/5", "-", "3m 5s")


def taken(widths: tuple[int, ...]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def test_what_fits_is_left_as_it_is() -> None:
    layout = lay_out(JOBS, [job()], 120)
    assert layout.widths == (36, 9, 7, 11, 8, 3, 7)
    assert not layout.is_stacked


def test_in_eighty_columns_a_job_has_two_lines_and_all_of_its_columns() -> None:
    layout = lay_out(JOBS, [job("report.monthly.of.a.very.long.name.indeed")], 80)
    assert layout.is_stacked
    assert layout.widths == (36, 32, 7, 11, 8, 3, 7), "the long text gives way, the state does not"
    assert GAP + taken(layout.widths[1:]) == 80


def test_the_column_that_is_named_gives_way_before_wider_ones() -> None:
    rows = [("r" * 60, "s" * 40)]
    assert lay_out(("x", "y"), rows, 90, flexible=1).widths == (60, 28)
    assert lay_out(("x", "y"), rows, 90).widths == (48, 40)


def test_a_pipe_gets_one_line_per_row_and_whole_ids() -> None:
    layout = lay_out(JOBS, [job("t" * 300)], 200, stacks=False)
    assert (layout.is_stacked, layout.widths[0], taken(layout.widths)) == (False, 36, 200)


def test_a_terminal_too_narrow_for_anything_cuts_no_id() -> None:
    assert lay_out(JOBS, [job()], 30).widths[0] == 36


@given(
    texts=st.lists(st.lists(st.text(max_size=60), min_size=3, max_size=3), max_size=4),
    width=st.integers(40, 200),
    flexible=st.none() | st.integers(0, 3),
)
def test_every_layout_fits_and_wastes_nothing(texts: list[list[str]], width: int, flexible: int | None) -> None:
    columns, rows = ("id", "one", "two", "three"), [(ID, *row) for row in texts]
    layout = lay_out(columns, rows, width, flexible=flexible)
    natural = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
    assert all(min(most, LEAST) <= had <= most for had, most in zip(layout.widths, natural, strict=True))
    used = GAP + taken(layout.widths[1:]) if layout.is_stacked else taken(layout.widths)
    assert used <= width or not rows
    assert layout.widths == tuple(natural) or used == width


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"a": 1, "b": True}, {"a": 2, "b": True}, ["a: 1 → 2"]),
        (None, {"a": 1, "b": None}, ["a: 1"]),
        ({"a": "x" * 99}, None, [f"a: {'x' * 59}…"]),
        ({"a": None}, {"a": False}, ["a: - → no"]),
        (None, None, []),
    ],
)
def test_a_note_tells_what_differs(before: object, after: object, told: list[str]) -> None:
    assert list(differences(before, after)) == told
