"""A job's fields as Python people write them, turned into the JSON object that the API and `tidemill.enqueue` take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypedDict

from tidemill.domain import keys, limits
from tidemill.domain.errors import Fault, Invalid

JSON_TYPES: Final = frozenset({str, int, bool, float, dict, list, type(None)})
"""Of values that need no conversion."""


class JobFields(TypedDict, total=False):
    """What `POST /v1/jobs` takes beside `job_type` and `payload` (API.md §2). Instants are aware datetimes or RFC 3339 text;
    durations in ms may be timedeltas.
    """

    queue: str
    schema_version: int
    priority: int
    run_at: datetime | str
    delay_ms: int | timedelta
    hold: bool
    idempotency_key: str
    unique: Mapping[str, Any]
    concurrency: Mapping[str, Any]
    retry_policy: str | Mapping[str, Any]
    max_attempts: int
    timeout_ms: int | timedelta
    partition_key: str
    weight: int
    rate_class: str
    sticky_worker: str
    tags: Sequence[str]
    headers: Mapping[str, str]
    traceparent: str
    tracestate: str
    retention_ms: int | timedelta
    depends_on: Sequence[str]
    on_parent_failure: str
    batch_id: str


def job_object(job_type: str, payload: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object of one job. A payload of None is left out: the API's default is `{}`."""
    given = {"job_type": job_type} | ({"payload": payload} if payload is not None else {})
    return plain(given | dict(fields))


def job_objects(jobs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The JSON objects of many. Invalid names the first that is none, by its place."""
    return encoded(jobs)[0]


def encoded(jobs: Iterable[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """The JSON objects of many, and their array as JSON text, made in one go. Invalid as in `job_objects`."""
    found: list[dict[str, Any]] = []
    for index, job in enumerate(jobs):
        if type(job) is not dict and not isinstance(job, Mapping):
            raise Invalid([Fault(("jobs", index), f"must be an object with at least job_type, not {type(job).__name__}")])
        found.append(dict(job) if JSON_TYPES.issuperset(map(type, job.values())) else _converted(job, at=("jobs", index)))
    try:
        return found, keys.compact_json(found)
    except (TypeError, ValueError, RecursionError) as error:
        for index, fields in enumerate(found):  # now one by one, to say where
            for name, value in fields.items():
                _check(name, value, ("jobs", index))
        raise Invalid([Fault(("jobs",), f"is no JSON value: {error}")]) from None


def plain(fields: Mapping[str, Any], *, at: tuple[str | int, ...] = ()) -> dict[str, Any]:
    """`fields` with instants as text and timedeltas in ms, and all of it surely JSON.

    Invalid names the field. Everything else about it is the API's to judge: it knows all the bounds.
    """
    found = _converted(fields, at=at)
    for name, value in found.items():
        _check(name, value, at)
    return found


def _converted(fields: Mapping[str, Any], *, at: tuple[str | int, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in fields.items():
        match value:
            case datetime():
                found[name] = instant(name, value, at=at)
            case timedelta() if name.endswith("_ms"):
                found[name] = value // timedelta(milliseconds=1)
            case tuple() if name in ("tags", "depends_on"):
                found[name] = list(value)
            case _:
                found[name] = value
    return found


def instant(name: str, value: datetime | str, *, at: tuple[str | int, ...] = ()) -> str:
    """`value` in RFC 3339 with Z. A datetime without a time zone is Invalid rather than guessed; text is passed on."""
    if isinstance(value, str):
        return value
    if value.utcoffset() is None:
        raise Invalid([Fault((*at, name), "has no time zone: use an aware datetime such as datetime.now(timezone.utc)")])
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def chunks(jobs: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """`jobs` in parts that one bulk call may carry: at most 1,000 jobs and (a little under) 4 MB of JSON."""
    start = size = 0
    for index, job in enumerate(jobs):
        weight = len(keys.compact_json(job).encode("utf-8", "surrogatepass")) + 1
        if index > start and (index - start >= limits.BULK_JOBS or size + weight > limits.BULK_BYTES - 1_024):
            yield list(jobs[start:index])
            start, size = index, 0
        size += weight
    if start < len(jobs):
        yield list(jobs[start:])


def fits(jobs: Sequence[dict[str, Any]], text: str) -> bool:
    """True if `jobs`, whose JSON array is `text`, may go in one bulk call."""
    return 0 < len(jobs) <= limits.BULK_JOBS and len(text.encode("utf-8", "surrogatepass")) <= limits.BULK_BYTES - 1_024


def _check(name: str, value: Any, at: tuple[str | int, ...]) -> None:
    if type(value) in (str, int, bool):
        return
    try:
        keys.compact_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid([Fault((*at, name), f"is no JSON value: {error}")]) from None
