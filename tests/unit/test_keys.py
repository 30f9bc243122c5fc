"""Canonical JSON: one text per value, numbers exact, no exponents."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.domain import keys

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(codec="utf-8"))
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    """Equal in value and in type, so that 1 is not 1.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b)


@given(value=values)
def test_canonical_json_reads_back_as_the_same_value_of_the_same_types(value: Any) -> None:
    assert same(json.loads(keys.canonical_json(value)), value)
    assert same(json.loads(keys.compact_json(value)), value)


@given(value=st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_no_number_is_written_with_an_exponent(value: float) -> None:
    assert not set("eE") & set(keys.canonical_json(value))


@given(value=st.dictionaries(st.text(st.characters(codec="utf-8")), values, min_size=2, max_size=5))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert keys.canonical_json(turned) == keys.canonical_json(value)
    assert keys.digest(turned) == keys.digest(value)


@given(value=values)
def test_a_digest_fits_a_bigint(value: Any) -> None:
    assert -(2**63) <= keys.digest(value) < 2**63


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e23, "100000000000000000000000.0"),
        (1e-7, "0.0000001"),
        (1.0, "1.0"),
        (1, "1"),
        (True, "true"),
        (2**80, str(2**80)),
        ([1e23, {"b": 1, "a": 2.5e-10}], '[100000000000000000000000.0,{"a":0.00000000025,"b":1}]'),
        ({"e+": "x"}, '{"e+":"x"}'),
        ("é\n\u2028", '"é\\n\u2028"'),
    ],
)
def test_canonical_json_by_example(value: Any, text: str) -> None:
    assert keys.canonical_json(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [math.nan], {"a": math.inf}, [1e23, math.nan]])
def test_what_is_no_json_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        keys.canonical_json(value)


def test_compact_json_keeps_the_order_of_keys() -> None:
    assert keys.compact_json({"b": 1e23, "a": 1}) == '{"b":100000000000000000000000.0,"a":1}'


def test_what_json_has_no_word_for_is_refused() -> None:
    for value in ({1, 2}, [1e23, b"x"]):
        with pytest.raises(TypeError):
            keys.canonical_json(value)
