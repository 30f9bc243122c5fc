"""Which stretch is counted next (domain.counting)."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tidemill.domain import counting
from tidemill.domain.counting import Mark, Progress

S = timedelta(seconds=1)
M = timedelta(minutes=1)
T0 = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


def test_mark_settles_what_lies_before_it_once_every_older_transaction_has_ended() -> None:
    mark = Mark(T0, 100)
    assert counting.settled(Progress(), mark, oldest=101) == (T0 - counting.SLACK, None)
    assert counting.settled(Progress(), mark, oldest=90) == (None, mark)


def test_older_mark_settles_while_the_newer_one_still_waits() -> None:
    older, newer = Mark(T0 - M, 80), Mark(T0, 100)
    assert counting.settled(Progress(mark=older), newer, oldest=90) == (T0 - M - counting.SLACK, newer)


def test_mark_that_waits_is_not_replaced_by_newer_ones() -> None:
    older, newer = Mark(T0 - M, 80), Mark(T0, 100)
    assert counting.settled(Progress(mark=older), newer, oldest=70) == (None, older)


def test_open_transaction_holds_the_count_up_for_as_long_as_patience_lasts() -> None:
    progress = Progress(T0, T0)
    assert counting.next_step(progress, None, T0 + counting.PATIENCE) is None
    step = counting.next_step(progress, None, T0 + counting.PATIENCE + 30 * S)
    assert step is not None
    assert (step.kind, step.since, step.until) == ("fold", T0, T0 + 30 * S)
    assert step.after == Progress(T0 + 30 * S, T0)


def test_minute_that_was_counted_too_early_is_counted_again_once_it_is_settled() -> None:
    step = counting.next_step(Progress(T0 + 90 * S, T0 + 10 * S), T0 + 5 * M, T0 + 6 * M)
    assert step is not None
    assert (step.kind, step.since, step.until) == ("recount", T0, T0 + M)
    assert step.after.settled_until == T0 + M
    assert step.after.folded_until == T0 + 90 * S


def test_ids_sort_with_the_seconds_they_were_made_in() -> None:
    assert counting.least_id(T0) == "01b8dd58-e200-0000-0000-000000000000"
    assert counting.least_id(T0 - S) < counting.least_id(T0) < counting.least_id(T0 + S)


@given(
    st.lists(
        st.tuples(st.integers(1, 400), st.none() | st.integers(0, 300)),
        min_size=1,
        max_size=30,
    )
)
def test_stretches_leave_no_gap_and_never_overlap(passes: list[tuple[int, int | None]]) -> None:
    """Whatever is settled when: folds follow each other without a gap, stay within a minute, and a recount covers what was forced."""
    progress, now = Progress(T0, T0), T0
    for seconds, age in passes:
        now += seconds * S
        safe = counting.second_of(now - age * S) if age is not None else None
        while (step := counting.next_step(progress, safe, now)) is not None:
            assert counting.minute_of(step.since) == counting.minute_of(step.until - timedelta(microseconds=1))
            if step.kind == "fold":
                assert step.since == progress.folded_until
                assert step.since < step.until <= now
            else:
                assert step.after.settled_until > progress.settled_until
            assert step.after.settled_until <= step.after.folded_until
            if step.after.settled_until > progress.settled_until:
                assert safe is not None
                assert step.after.settled_until <= safe
            progress = step.after
