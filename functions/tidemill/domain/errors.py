"""Every error a caller can get, each with a stable `code` (API.md §0).

    TidemillError
    ├── Invalid                validation_error      one or more faulty fields, each with place and bound
    │   └── OutOfRange                               a number outside its bounds
    ├── MalformedBody          malformed_body
    ├── UnsupportedMediaType   unsupported_media_type
    ├── PayloadTooLarge        payload_too_large
    ├── Unauthenticated        unauthenticated
    ├── Forbidden              forbidden
    ├── NotFound               not_found
    ├── MethodNotAllowed       method_not_allowed
    ├── Conflict
    │   ├── InvalidTransition    invalid_transition    names both states
    │   ├── LeaseLost            lease_lost
    │   ├── UniqueConflict       unique_conflict       names the job that holds the key
    │   ├── IdempotencyConflict  idempotency_conflict
    │   ├── QueueNotEmpty        queue_not_empty
    │   └── PlanDrifted          plan_drifted
    ├── QueueFull              queue_full            retry_after_secs
    ├── Throttled              throttled             retry_after_secs
    ├── Unavailable            unavailable           retry_after_secs
    └── Internal               internal              never says why; the log does

Texts say what, which value, which bound, and what to do. They never hold a payload, a token, SQL or a host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One faulty field: where it is (path of names and positions) and what is wrong, with the bound."""

    loc: tuple[str | int, ...]
    msg: str


class TidemillError(Exception):
    """Base of all errors that tidemill raises on purpose."""

    code = "internal"
    retry_after_secs: int | None = None

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Invalid(TidemillError):
    """A well-formed request with faulty fields; `faults` lists all of them."""

    code = "validation_error"

    def __init__(self, faults: Sequence[Fault], detail: str | None = None) -> None:
        self.faults = tuple(faults)
        super().__init__(detail or "; ".join(f"{dotted(f.loc)}: {f.msg}" for f in self.faults[:3]))


class OutOfRange(Invalid):
    """A number outside its bounds: field, value, bound."""

    def __init__(self, field: str, *, value: object, low: int, high: int) -> None:
        self.field, self.value, self.low, self.high = field, value, low, high
        super().__init__([Fault((field,), f"{value!r} is outside {low:,} to {high:,}")])


class MalformedBody(TidemillError):
    """A body that is not the JSON it claims to be."""

    code = "malformed_body"


class UnsupportedMediaType(TidemillError):
    """A body in another form than application/json in UTF-8."""

    code = "unsupported_media_type"


class PayloadTooLarge(TidemillError):
    """A body or payload over its published size."""

    code = "payload_too_large"


class Unauthenticated(TidemillError):
    """No token, or one that is not valid now."""

    code = "unauthenticated"


class Forbidden(TidemillError):
    """A valid token without the scope that the route asks for."""

    code = "forbidden"


class NotFound(TidemillError):
    """No such thing in this project (another project's thing looks the same)."""

    code = "not_found"

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        super().__init__(f"no {kind} {name[:200]!r} in this project")


class MethodNotAllowed(TidemillError):
    """A known route that does not take this method."""

    code = "method_not_allowed"


class Conflict(TidemillError):
    """The request is fine; what is stored stands against it."""

    code = "conflict"


class InvalidTransition(Conflict):
    """The state does not allow this move."""

    code = "invalid_transition"

    def __init__(self, state: str, event: str, *, to: str | None = None, kind: str = "job") -> None:
        self.state, self.event, self.to = state, event, to
        goal = f" to {to}" if to else ""
        hint = ": see the job's actions for what it allows" if kind == "job" else ""
        article = "an" if state[:1] in "aeiou" else "a"
        super().__init__(f"{article} {state} {kind} cannot {event}{goal}{hint}")


class LeaseLost(Conflict):
    """The lease has expired, ended or passed to another worker; nothing was written."""

    code = "lease_lost"

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"the lease on job {job_id} is no longer yours: nothing was written; stop working on it")


class UniqueConflict(Conflict):
    """Another live job holds the unique key."""

    code = "unique_conflict"

    def __init__(self, job_id: str, holder_id: str) -> None:
        self.job_id, self.holder_id = job_id, holder_id
        super().__init__(f"job {holder_id} holds the unique key of job {job_id}: wait for it to end, or cancel it")


class IdempotencyConflict(Conflict):
    """The idempotency key belongs to another request."""

    code = "idempotency_conflict"


class QueueNotEmpty(Conflict):
    """The queue still holds jobs."""

    code = "queue_not_empty"


class PlanDrifted(Conflict):
    """A bulk plan's match has grown since it was made."""

    code = "plan_drifted"


class Busy(TidemillError):
    """Not now; the same request may succeed after `retry_after_secs`."""

    def __init__(self, detail: str, *, retry_after_secs: int = 1) -> None:
        super().__init__(detail)
        self.retry_after_secs = retry_after_secs


class QueueFull(Busy):
    """The queue holds as many unfinished jobs as it may."""

    code = "queue_full"


class Throttled(Busy):
    """Too many requests of this kind."""

    code = "throttled"


class Unavailable(Busy):
    """The database cannot answer at the moment; nothing was changed unless it had said so."""

    code = "unavailable"


class Internal(TidemillError):
    """A fault of ours; the text is the same for all of them."""

    code = "internal"


def dotted(loc: Sequence[str | int]) -> str:
    """A path as people write it: `jobs[3].payload.user`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text or "body"
