"""The types of fields, each with its bound from domain.limits. Model modules put them together."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from tidemill.domain import limits
from tidemill.http.ids import id_of

CLOSED: Final = ConfigDict(extra="forbid", strict=True)
"""Every request model: unknown fields are refused, and nothing is converted."""

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_LOCAL: Final = re.compile(r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?)?", re.ASCII)


def instant_of(text: str) -> datetime:
    """The instant of an RFC 3339 text with an offset, in UTC; ValueError says what is wrong."""
    if not _INSTANT.fullmatch(text):
        if _LOCAL.fullmatch(text):
            raise ValueError("must say its offset: end it in Z or +hh:mm, such as 2027-01-31T09:00:00Z")
        raise ValueError("must be RFC 3339 with Z or an offset, such as 2027-01-31T09:00:00Z")
    try:
        instant = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be a date and time that exist") from None
    low, high = limits.RUN_AT_YEARS
    if not low <= instant.year <= high:
        raise ValueError(f"must lie in the years {low} to {high}")
    return instant


def text_of(instant: datetime) -> str:
    """An instant as the API writes it: UTC, microseconds, Z."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def _id(text: str) -> str:
    found = id_of(text)
    if found is None:
        raise PydanticCustomError("id_form", "must be an id of the form 8-4-4-4-12 hex digits")
    return found


def _instant(text: str) -> str:
    try:
        return text_of(instant_of(text))
    except ValueError as error:
        raise PydanticCustomError("instant_form", str(error)) from None


Id = Annotated[str, AfterValidator(_id), WithJsonSchema({"type": "string", "format": "uuid"})]
Instant = Annotated[str, AfterValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}$")]
Key = Annotated[str, StringConstraints(min_length=1, max_length=limits.KEY_CHARS)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=limits.NAME_CHARS)]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=limits.TAG_CHARS)]
Tags = Annotated[list[Tag], Field(max_length=limits.TAGS)]
Priority = Annotated[int, Field(ge=limits.PRIORITY[0], le=limits.PRIORITY[1])]
Int32 = Annotated[int, Field(ge=limits.INT32[0], le=limits.INT32[1])]
DelayMs = Annotated[int, Field(ge=limits.DELAY_MS[0], le=limits.DELAY_MS[1])]
LeaseMs = Annotated[int, Field(ge=limits.LEASE_MS[0], le=limits.LEASE_MS[1])]
TimeoutMs = Annotated[int, Field(ge=limits.TIMEOUT_MS[0], le=limits.TIMEOUT_MS[1])]
RetentionMs = Annotated[int, Field(ge=limits.RETENTION_MS[0], le=limits.RETENTION_MS[1])]
MaxAttempts = Annotated[int, Field(ge=limits.MAX_ATTEMPTS[0], le=limits.MAX_ATTEMPTS[1])]
BackoffMs = Annotated[int, Field(ge=0, le=limits.BACKOFF_MS)]
Multiplier = Annotated[float, Field(ge=limits.MULTIPLIER[0], le=limits.MULTIPLIER[1], strict=False)]
WaitMs = Annotated[int, Field(ge=limits.WAIT_MS[0], le=limits.WAIT_MS[1])]
QueueNames = Annotated[list[Name], Field(min_length=1, max_length=limits.CLAIM_QUEUES)]
JobTypes = Annotated[list[Name], Field(min_length=1, max_length=limits.CLAIM_QUEUES)]
BigInt = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
Load = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False, strict=False)]
