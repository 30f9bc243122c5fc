"""What stands in a path."""

from __future__ import annotations

from tidemill.domain import limits
from tidemill.domain.errors import Fault, Invalid, NotFound
from tidemill.http.ids import id_of


def path_id(kind: str, text: str) -> str:
    """The id in lower case; NotFound for what has not the form of one, since nothing can have that id."""
    found = id_of(text)
    if found is None:
        raise NotFound(kind, _printable(text))
    return found


def path_name(kind: str, text: str) -> str:
    """The name; NotFound for what cannot be one."""
    if not limits.is_name(text):
        raise NotFound(kind, _printable(text))
    return text


def new_name(text: str) -> str:
    """A name that a thing may get by PUT; Invalid with the rule for what cannot be one."""
    if not limits.is_name(text):
        raise Invalid([Fault(("name",), limits.NAME_RULE)])
    return text


def _printable(text: str) -> str:
    return text[:100].encode("ascii", "replace").decode()
