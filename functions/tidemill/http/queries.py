"""Query parameters: text turned into what their model says, with the same faults as bodies have."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, Field, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.domain.errors import Fault, Invalid
from tidemill.http.fields import CLOSED
from tidemill.http.validation import checked


def _number(text: Any) -> Any:
    if isinstance(text, int) and not isinstance(text, bool):  # from a body, for models that queries and bodies share
        return text
    if isinstance(text, str) and len(text) <= 20 and text.removeprefix("-").isascii() and text.removeprefix("-").isdigit():
        return int(text)
    raise PydanticCustomError("whole", "must be a whole number")


def _flag(text: Any) -> Any:
    if text in ("true", "false"):
        return text == "true"
    raise PydanticCustomError("flag", "must be true or false")


Whole = BeforeValidator(_number)
Flag = Annotated[bool, BeforeValidator(_flag)]
Limit = Annotated[int, Whole, Field(ge=limits.PAGE_ROWS[0], le=limits.PAGE_ROWS[1])]
Cursor = Annotated[str, Field(max_length=2_000)]


@with_config(CLOSED)
class Page(TypedDict):
    """Every list takes these."""

    limit: NotRequired[Limit]
    cursor: NotRequired[Cursor]


def taken(model: Any, given: Mapping[str, list[str]]) -> dict[str, Any]:
    """The parameters as the model has them. Invalid for unknown ones, and for two of what may be given once."""
    many = _repeatable(model)
    twice = [name for name, values in given.items() if len(values) > 1 and name not in many]
    if twice:
        raise Invalid([Fault(("query", name[:200]), "may be given once") for name in twice])
    flat = {name: values if name in many else values[0] for name, values in given.items()}
    found: dict[str, Any] = checked(model, flat, at=("query",))
    return found


@cache
def _repeatable(model: Any) -> frozenset[str]:
    return frozenset(name for name, hint in get_type_hints(model, include_extras=True).items() if _is_list(hint))


def _is_list(hint: Any) -> bool:
    while get_origin(hint) in (NotRequired, Annotated):
        hint = get_args(hint)[0]
    return get_origin(hint) is list
