"""The filter of jobs: `GET /v1/jobs` takes it as its query, lists and bulk operations as an object of the same names."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, Field, with_config
from typing_extensions import TypedDict

from tidemill.domain import limits
from tidemill.http.fields import CLOSED, Id, Instant, Key, Name, Tag
from tidemill.http.models.jobs import State
from tidemill.http.queries import Whole


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


Listed = Literal[State, "retrying"]
"""What a list of jobs may ask for."""

ErrorGroup = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
"""A kind of error, as `GET /v1/dead-letters?group_by=error` names it."""

OneOrMore = BeforeValidator(_listed)
"""In a body one text stands for a list of one, as it does in a query."""


@with_config(CLOSED)
class JobFilter(TypedDict):
    """Conditions, all of which must hold."""

    queue: NotRequired[Name]
    job_type: NotRequired[Name]
    job_type_prefix: NotRequired[Name]
    state: NotRequired[Annotated[list[Listed], OneOrMore, Field(min_length=1)]]
    tag: NotRequired[Annotated[list[Tag], OneOrMore, Field(min_length=1, max_length=limits.TAGS)]]
    any_tag: NotRequired[Annotated[list[Tag], OneOrMore, Field(min_length=1, max_length=limits.TAGS)]]
    partition_key: NotRequired[Key]
    rate_class: NotRequired[Name]
    priority: NotRequired[Annotated[int, Whole, Field(ge=limits.PRIORITY[0], le=limits.PRIORITY[1])]]
    fingerprint: NotRequired[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]
    batch_id: NotRequired[Id]
    scheduled_job_id: NotRequired[Id]
    worker_id: NotRequired[Id]
    principal_id: NotRequired[Key]
    correlation_id: NotRequired[Key]
    error_class: NotRequired[Annotated[str, Field(min_length=1, max_length=limits.ERROR_CLASS_CHARS)]]
    error_group: NotRequired[ErrorGroup]
    created_after: NotRequired[Instant]
    created_before: NotRequired[Instant]
    q: NotRequired[Key]
