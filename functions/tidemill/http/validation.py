"""Checks values against the models and says what is wrong in our words: field, value or length, bound."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from tidemill.domain import limits
from tidemill.domain.errors import Fault, Invalid
from tidemill.domain.text import cleaned, unstorable_paths

MOST_FAULTS: Final = 100
UNSTORABLE: Final = "holds NUL or a lone surrogate, which cannot be stored"

_WITH_INPUT: Final = {"greater_than_equal", "less_than_equal", "greater_than", "less_than"}
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
            faults = faults_of(error, at)
    raise Invalid(faults)


def faults_of(error: ValidationError, at: tuple[str | int, ...] = ()) -> list[Fault]:
    """The faults that pydantic found; values are told for numbers out of bounds only."""
    found = []
    for item in error.errors(include_url=False, include_context=False)[:MOST_FAULTS]:
        msg = _WORDS.get(item["type"]) or item["msg"].replace("Input should be", "must be", 1)
        value = item["input"]
        if item["type"] in _WITH_INPUT and isinstance(value, int | float):
            msg += f", not {value:.20g}" if isinstance(value, float) or abs(value) < 10**30 else ", which this number is far beyond"
        loc = (cleaned(part)[:200] if isinstance(part, str) else part for part in item["loc"])
        found.append(Fault((*at, *loc), msg))
    return found


def _first(paths: Iterable[tuple[str | int, ...]]) -> list[tuple[str | int, ...]]:
    return [path for path, _ in zip(paths, range(MOST_FAULTS), strict=False)]
