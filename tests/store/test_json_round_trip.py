"""JSON through jsonb: numbers come back as sent, and SQL's unique key tells values apart exactly as canonical_json does."""

import json
import math
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness.databases import Databases
from tidemill.domain.keys import canonical_json, compact_json

text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
floats = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != 0 or math.copysign(1, x) == 1)
scalars = st.none() | st.booleans() | st.integers() | st.integers(-(10**300), 10**300) | floats | text
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=10)
near = st.recursive(
    st.sampled_from([None, 0, 1, 1.0, 10, 10.0, 1e1, 1e23, 10**23, 1e22, 0.1, "1", "", "a", True, False]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "aa", "B", "é"]), inner, max_size=2),
    max_leaves=4,
)
CI = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True, database=None)


@pytest.fixture(scope="module")
def server(databases: Databases) -> Iterator[psycopg.Connection]:
    dsn = databases.clone()
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as conn:
        yield conn
    databases.drop(dsn)


def through(server: psycopg.Connection, value: Any) -> Any:
    row = server.execute("select %s::jsonb::text", [compact_json(value)]).fetchone()
    assert row is not None
    return json.loads(row[0])


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)


@CI
@given(value=values)
@example(value=1e23)
@example(value=10**23)
@example(value=[1.0, 1, 5e-324, 1.7976931348623157e308, 0.1, 10**4_000])
@example(value={"b": 2**64, "a": -(2**63) - 1, "e+": 1e-7})
def test_a_value_comes_back_from_jsonb_with_its_types_and_digits(server: psycopg.Connection, value: Any) -> None:
    assert same(through(server, value), value)


def test_a_negative_zero_comes_back_as_zero(server: psycopg.Connection) -> None:
    """Postgres' numeric has none: the one number that does not come back as sent (domain.keys)."""
    back = through(server, [-0.0])
    assert same(back, [0.0])
    assert math.copysign(1, back[0]) == 1


def unique_key(server: psycopg.Connection, value: Any, by: Any = None) -> bytes:
    row = server.execute(
        "select tidemill.unique_key('t', %s::jsonb, %s::jsonb)", [compact_json(value), None if by is None else json.dumps(by)]
    ).fetchone()
    assert row is not None
    return bytes(row[0])


@CI
@given(pair=st.tuples(near, near) | st.tuples(values, values) | values.map(lambda v: (v, v)))
@example(pair=(1, 1.0))
@example(pair=(1e23, 10**23))
@example(pair=({"a": 1, "b": 2}, {"b": 2, "a": 1}))
@example(pair=({"aa": 1, "b": 2}, {"b": 2, "aa": 1}))
@example(pair=(10.0, 1e1))
@example(pair=(0, False))
def test_unique_keys_are_equal_exactly_where_canonical_json_is(server: psycopg.Connection, pair: tuple[Any, Any]) -> None:
    one, two = pair
    assert (unique_key(server, one) == unique_key(server, two)) is (canonical_json(one) == canonical_json(two))


@CI
@given(
    one=st.dictionaries(st.sampled_from("abc"), near),
    two=st.dictionaries(st.sampled_from("abc"), near),
    by=st.lists(st.sampled_from("abc"), min_size=1),
)
def test_chosen_fields_make_the_key_and_the_others_do_not(server: psycopg.Connection, one: Any, two: Any, by: list[str]) -> None:
    chosen = [canonical_json({name: value.get(name) for name in by}) for value in (one, two)]
    assert (unique_key(server, one, by) == unique_key(server, two, by)) is (chosen[0] == chosen[1])
