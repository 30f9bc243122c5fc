"""Text that Postgres cannot hold, the published bounds, and the tree of errors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.domain import errors, limits, text

any_text = st.text(st.characters() | st.sampled_from("\x00\ud800\udfff\udbff"))
json_values = st.recursive(
    any_text | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


@given(given=any_text)
def test_b067_cleaned_text_can_be_stored_and_keeps_its_length(given: str) -> None:
    clean = text.cleaned(given)
    assert text.storable(clean)
    assert len(clean) == len(given)
    assert (clean == given) == text.storable(given)
    clean.encode("utf-8")


@given(value=json_values)
def test_b067_a_cleaned_value_has_no_unstorable_place(value: Any) -> None:
    assert list(text.unstorable_paths(text.cleaned_json(value))) == []


def test_b067_every_unstorable_place_is_named() -> None:
    value = {"a": ["ok", "x\x00"], "b\ud800": 1, "c": {"d": {"e": "\udfff"}}}
    assert sorted(map(str, text.unstorable_paths(value))) == ["('a', 1)", "('b\ufffd',)", "('c', 'd', 'e')"]


def test_a_paired_surrogate_is_one_character_and_fine() -> None:
    assert text.storable("\U0001f600")


@given(given=any_text, size=st.integers(4, 60))
def test_clip_never_exceeds_its_bytes_nor_splits_a_character(given: str, size: int) -> None:
    cut = limits.clip(text.cleaned(given), size)
    assert len(cut.encode()) <= size
    if cut != text.cleaned(given):
        assert cut.endswith("…")
        assert text.cleaned(given).startswith(cut[:-1])


@pytest.mark.parametrize("name", ["a", "A.b:c/d-e_f", "9", "x" * 200])
def test_names_that_may_stand_in_a_route(name: str) -> None:
    assert limits.is_name(name)


@pytest.mark.parametrize("name", ["", ".a", "a b", "ä", "a\n", "a\x00", "x" * 201, "-a", "a?"])
def test_names_that_may_not(name: str) -> None:
    assert not limits.is_name(name)


def test_every_error_has_the_code_that_the_contract_lists() -> None:
    listed = {
        "validation_error", "malformed_body", "unsupported_media_type", "unauthenticated", "forbidden", "not_found", "method_not_allowed",
        "payload_too_large", "invalid_transition", "lease_lost", "unique_conflict", "idempotency_conflict", "queue_not_empty",
        "plan_drifted",
        "queue_full", "throttled", "unavailable", "internal",
    }  # fmt: skip
    ours = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TidemillError)]
    own = [kind for kind in ours if not any(kind in other.__bases__ for other in ours) or kind is errors.Invalid]
    assert {leaf.code for leaf in own} == listed
    tree = errors.__doc__ or ""
    for leaf in own:
        assert leaf.__name__ in tree


def test_errors_name_field_value_bound_and_way_out() -> None:
    assert str(errors.OutOfRange("priority", value=99_999, low=-32_768, high=32_767)) == "priority: 99999 is outside -32,768 to 32,767"
    assert "retry" not in str(errors.InvalidTransition("running", "delete"))
    assert str(errors.UniqueConflict("a", "b")).startswith("job b holds the unique key of job a")
    assert errors.dotted(("jobs", 3, "payload", "user")) == "jobs[3].payload.user"
    assert errors.dotted(()) == "body"
    assert errors.Unavailable("x", retry_after_secs=7).retry_after_secs == 7
