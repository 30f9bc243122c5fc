"""Checks values against the models and says what is wrong in our words: field, value or length, bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from tidemill.domain import limits
from tidemill.domain.errors import Fault, Invalid
from tidemill.domain.text import cleaned, unstorable_paths

MOST_FAULTS: Final = 100
UNSTORABLE: Final = "holds NUL or a lone surrogate, which cannot be stored"

_WITH_INPUT: Final = {"greater_than_equal", "less_than_equal", "greater_than", "less_than"}
_OF_A_FIELD: Final = {"missing", "extra_forbidden"}
_WORDS: Final = {
    "missing": "is required",
    "extra_forbidden": "no such field",
    "string_pattern_mismatch": limits.NAME_RULE,
    "string_unicode": UNSTORABLE,
}


@cache
def adapter(model: Any) -> TypeAdapter[Any]:
    """The validator of a model, built once."""
    return TypeAdapter(model)


def checked(model: Any, value: Any, *, at: tuple[str | int, ...] = (), storable: bool = True) -> Any:
    """`value` as the model has it; Invalid names every fault below `at`. `storable` False: look for text that cannot be stored, too."""
    faults = [] if storable else [Fault((*at, *path), UNSTORABLE) for path in _first(unstorable_paths(value))]
    if not faults:
        try:
            return adapter(model).validate_python(value)
        except ValidationError as error:
            faults = faults_of(error, value, at)
    raise Invalid(faults)


def faults_of(error: ValidationError, value: Any, at: tuple[str | int, ...] = ()) -> list[Fault]:
    """The faults that pydantic found in `value`, one per place; a value is told for numbers out of bounds only."""
    found: dict[tuple[str | int, ...], list[str]] = {}
    for item in error.errors(include_url=False, include_context=False)[:MOST_FAULTS]:
        msg = _WORDS.get(item["type"]) or item["msg"].replace("Input should be", "must be", 1)
        given = item["input"]
        if item["type"] in _WITH_INPUT and isinstance(given, int | float):
            msg += f", not {given:.20g}" if isinstance(given, float) or abs(given) < 10**30 else ", which this number is far beyond"
        texts = found.setdefault((*at, *_place(item["loc"], value, names_a_field=item["type"] in _OF_A_FIELD)), [])
        if msg not in texts:
            texts.append(msg)
    return [Fault(loc, ", or ".join(texts)) for loc, texts in found.items()]


def _place(loc: tuple[str | int, ...], value: Any, *, names_a_field: bool) -> Iterator[str | int]:
    """Where it is in what was given. Between the parts of the way pydantic names the alternative that it tried: no caller knows those."""
    for position, part in enumerate(loc):
        is_there = part in value if isinstance(value, Mapping) else isinstance(value, list) and part in range(len(value))
        if is_there:
            value = value[part]
        elif not (names_a_field and position == len(loc) - 1):
            continue
        yield cleaned(part)[:200] if isinstance(part, str) else part


def _first(paths: Iterable[tuple[str | int, ...]]) -> list[tuple[str | int, ...]]:
    return [path for path, _ in zip(paths, range(MOST_FAULTS), strict=False)]
