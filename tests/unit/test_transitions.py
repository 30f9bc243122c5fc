"""The one table of moves, walked in full, and decide() over every outcome."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.domain import backoff, limits, transitions
from tidemill.domain.backoff import RetryPolicy
from tidemill.domain.errors import InvalidTransition
from tidemill.domain.transitions import FINAL, LEASED, TABLE, WAITING, Attempt, Event, ExecutionStatus, Report, State, decide

ENDINGS = (
    Event.COMPLETE,
    Event.FAIL,
    Event.CRASH,
    Event.SNOOZE,
    Event.RELEASE,
    Event.LEASE_EXPIRED,
    Event.ACK_CANCELLED,
    Event.FORCE_CANCEL,
)

# API.md §2, written again by hand: from, on, to.
PUBLISHED = {
    ("pending", "parents_settled"): "queued scheduled cancelled pending",
    ("pending", "promote"): "queued scheduled",
    ("pending", "reschedule"): "pending",
    ("pending", "cancel"): "cancelled",
    ("pending", "force_cancel"): "cancelled",
    ("pending", "quarantine"): "quarantined",
    ("scheduled", "promote"): "queued",
    ("scheduled", "reschedule"): "scheduled queued",
    ("scheduled", "due"): "queued",
    ("scheduled", "cancel"): "cancelled",
    ("scheduled", "force_cancel"): "cancelled",
    ("scheduled", "quarantine"): "quarantined",
    ("queued", "reschedule"): "scheduled queued",
    ("queued", "claim"): "claimed running",
    ("queued", "cancel"): "cancelled",
    ("queued", "force_cancel"): "cancelled",
    ("queued", "quarantine"): "quarantined",
    ("claimed", "start"): "running",
    **{
        (state, event): to
        for state in ("claimed", "running")
        for event, to in {
            "complete": "completed",
            "fail": "scheduled dead_letter cancelled",
            "crash": "scheduled dead_letter cancelled quarantined",
            "lease_expired": "scheduled dead_letter cancelled quarantined",
            "snooze": "scheduled cancelled",
            "release": "queued cancelled",
            "cancelled": "cancelled",
            "cancel": state,
            "force_cancel": "cancelled",
        }.items()
    },
    ("dead_letter", "retry"): "queued",
    ("quarantined", "release_quarantined"): "queued scheduled pending cancelled",
    ("quarantined", "discard"): "cancelled",
    ("quarantined", "cancel"): "cancelled",
    ("quarantined", "force_cancel"): "cancelled",
    ("cancelled", "undo"): "pending scheduled queued quarantined",  # of the bulk operation that cancelled it
}


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)), ids=lambda x: x.value)
def test_every_pair_of_state_and_event_is_as_published(state: State, event: Event) -> None:
    expected = frozenset(State(word) for word in PUBLISHED.get((state.value, event.value), "").split())
    assert transitions.targets(state, event) == expected
    if expected:
        assert transitions.require(state, event) == expected
    else:
        with pytest.raises(InvalidTransition) as caught:
            transitions.require(state, event)
        assert caught.value.state == state.value
        assert state.value in str(caught.value)
        assert any(goal.value in str(caught.value) for (_, e), goals in TABLE.items() if e is event for goal in goals)


def test_nothing_ever_leaves_completed_and_only_an_undo_leaves_cancelled() -> None:
    assert [pair for pair in TABLE if pair[0] in (State.COMPLETED, State.CANCELLED)] == [(State.CANCELLED, Event.UNDO)]


def test_every_state_can_be_reached_and_every_live_one_can_be_left() -> None:
    reached = {to for goals in TABLE.values() for to in goals} | {State.PENDING, State.SCHEDULED, State.QUEUED}
    assert reached == set(State)
    assert {state for state, _ in TABLE} == set(State) - {State.COMPLETED}


def test_the_groups_of_states_are_disjoint_and_whole() -> None:
    groups = [LEASED, FINAL, WAITING, frozenset({State.QUARANTINED})]
    assert sum(len(group) for group in groups) == len(State)
    assert frozenset().union(*groups) == frozenset(State)


@pytest.mark.parametrize("state", list(State))
def test_actions_say_exactly_what_the_table_allows_an_operator(state: State) -> None:
    actions = set(transitions.actions(state))
    words = {
        Event.CANCEL: "cancel",
        Event.RETRY: "retry",
        Event.PROMOTE: "promote",
        Event.RESCHEDULE: "reschedule",
        Event.RELEASE_QUARANTINED: "release",
        Event.DISCARD: "discard",
    }
    for event, word in words.items():
        assert (word in actions) == ((state, event) in TABLE)
    assert ("edit" in actions) == transitions.editable(state)
    assert ("delete" in actions) == transitions.deletable(state) == (state not in LEASED)
    assert actions <= {*words.values(), "edit", "delete", "rerun"}


attempts = st.builds(
    Attempt,
    number=st.integers(1, 1_001),
    max_attempts=st.integers(1, 1_000),
    cancel_requested=st.booleans(),
    crash_count=st.integers(0, 2_000),
    is_quarantined=st.booleans(),
    has_rate_class=st.booleans(),
)
reports = st.builds(
    Report,
    event=st.sampled_from(ENDINGS),
    retryable=st.booleans(),
    retry_delay_ms=st.none() | st.integers(0, limits.BACKOFF_MS),
    delay_ms=st.integers(0, limits.DELAY_MS[1]),
    throttle_ms=st.none() | st.integers(0, limits.DELAY_MS[1]),
)
policies = st.builds(
    RetryPolicy,
    strategy=st.sampled_from(backoff.Strategy),
    base_delay_ms=st.integers(0, limits.BACKOFF_MS),
    multiplier=st.floats(*limits.MULTIPLIER),
    max_delay_ms=st.integers(0, limits.BACKOFF_MS),
    max_attempts=st.integers(*limits.MAX_ATTEMPTS),
    jitter=st.booleans(),
)
rolls = st.floats(0, 1, exclude_max=True)


@given(report=reports, attempt=attempts, policy=policies, roll=rolls)
def test_decide_keeps_to_the_table_and_to_the_counts(report: Report, attempt: Attempt, policy: RetryPolicy, roll: float) -> None:
    step = decide(report, attempt, policy, roll=roll)
    assert step.to in TABLE[(State.RUNNING, report.event)]
    throttled = report.event is Event.FAIL and report.throttle_ms is not None and attempt.has_rate_class
    assert step.attempt_count == attempt.number - (throttled or report.event in (Event.SNOOZE, Event.RELEASE))
    assert step.crash_count == attempt.crash_count + (report.event in (Event.CRASH, Event.LEASE_EXPIRED))
    assert step.delay_ms == 0 or step.to is State.SCHEDULED
    assert (step.reason is None) == (step.to in (State.COMPLETED, State.SCHEDULED, State.QUEUED))
    assert 0 <= step.delay_ms <= limits.DELAY_MS[1]
    if attempt.cancel_requested:
        assert step.to is (State.COMPLETED if report.event is Event.COMPLETE else State.CANCELLED)


@given(attempt=attempts, policy=policies, roll=rolls, event=st.sampled_from((Event.FAIL, Event.CRASH, Event.LEASE_EXPIRED)))
def test_a_failed_attempt_is_retried_exactly_while_attempts_remain(
    attempt: Attempt, policy: RetryPolicy, roll: float, event: Event
) -> None:
    attempt = replace(attempt, cancel_requested=False, is_quarantined=False)
    step = decide(Report(event), attempt, policy, roll=roll)
    assert step.to is (State.SCHEDULED if attempt.number < attempt.max_attempts else State.DEAD_LETTER)
    if step.to is State.SCHEDULED:
        assert step.delay_ms == backoff.delay_ms(policy, attempts=attempt.number, roll=roll)


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (Event.COMPLETE, ExecutionStatus.COMPLETED),
        (Event.FAIL, ExecutionStatus.FAILED),
        (Event.CRASH, ExecutionStatus.CRASHED),
        (Event.SNOOZE, ExecutionStatus.SNOOZED),
        (Event.RELEASE, ExecutionStatus.RELEASED),
        (Event.ACK_CANCELLED, ExecutionStatus.CANCELLED),
        (Event.FORCE_CANCEL, ExecutionStatus.CANCELLED),
        (Event.LEASE_EXPIRED, ExecutionStatus.LEASE_EXPIRED),
    ],
)
def test_the_history_says_what_happened_even_where_a_cancel_decides(event: Event, status: ExecutionStatus) -> None:
    for asked in (False, True):
        assert decide(Report(event), Attempt(1, 3, cancel_requested=asked), backoff.DEFAULT, roll=0).status is status


@pytest.mark.parametrize(
    ("report", "attempt", "to", "reason"),
    [
        (Report(Event.FAIL), Attempt(3, 3), State.DEAD_LETTER, "attempts_exhausted"),
        (Report(Event.CRASH), Attempt(3, 3), State.DEAD_LETTER, "attempts_exhausted"),
        (Report(Event.LEASE_EXPIRED), Attempt(3, 3), State.DEAD_LETTER, "lease_expired"),
        (Report(Event.FAIL, retryable=False), Attempt(1, 3), State.DEAD_LETTER, "not_retryable"),
        (Report(Event.CRASH), Attempt(1, 3, crash_count=2, is_quarantined=True), State.QUARANTINED, "crash"),
        (Report(Event.LEASE_EXPIRED), Attempt(3, 3, crash_count=2, is_quarantined=True), State.QUARANTINED, "lease_expired"),
        (Report(Event.FAIL), Attempt(1, 3, crash_count=9, is_quarantined=True), State.SCHEDULED, None),
        (Report(Event.FAIL, retryable=False), Attempt(1, 3, cancel_requested=True), State.CANCELLED, "cancel_requested"),
        (Report(Event.SNOOZE, delay_ms=7), Attempt(3, 3), State.SCHEDULED, None),
        (Report(Event.RELEASE), Attempt(3, 3), State.QUEUED, None),
        (Report(Event.FAIL, throttle_ms=7), Attempt(3, 3, has_rate_class=True), State.SCHEDULED, None),
        (Report(Event.FAIL, throttle_ms=7), Attempt(3, 3), State.DEAD_LETTER, "attempts_exhausted"),
        (Report(Event.FAIL, throttle_ms=7), Attempt(1, 3, cancel_requested=True, has_rate_class=True), State.CANCELLED, "cancel_requested"),
    ],
    ids=str,
)
def test_decide_names_its_reason(report: Report, attempt: Attempt, to: State, reason: str | None) -> None:
    step = decide(report, attempt, backoff.DEFAULT, roll=0)
    assert (step.to, step.reason) == (to, reason)


def test_a_delay_that_the_worker_asks_for_replaces_the_backoff() -> None:
    assert decide(Report(Event.FAIL, retry_delay_ms=0), Attempt(1, 3), backoff.DEFAULT, roll=0.5).delay_ms == 0
    assert decide(Report(Event.FAIL, throttle_ms=55), Attempt(1, 3), backoff.DEFAULT, roll=0.5).delay_ms == 55
    assert decide(Report(Event.FAIL, retry_delay_ms=77), Attempt(1, 3), backoff.DEFAULT, roll=0.5).delay_ms == 77
