"""What an endpoint is: a function of (call, path parameters…), marked with the models of what it takes and gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tidemill.http.audit import Auditing
    from tidemill.http.body import Body
    from tidemill.http.key_ring import KeyRing
    from tidemill.http.request import Principal, Request
    from tidemill.ports.signing import SigningKeys
    from tidemill.store.database import Database

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Answer:
    """A success: its value is written as JSON, or it is JSON text already."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    cookies: tuple[str, ...] = ()
    """Whole `Set-Cookie` values."""

    def text(self) -> str:
        """The body."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Operation:
    """body: model of the request body (None = takes none); query: model of the parameters; answers: models by status."""

    body: Any = None
    body_optional: bool = False
    query: Any = None
    answers: Mapping[int, Any] = field(default_factory=dict)
    checks_body: bool = True
    """False: the endpoint validates the body itself."""
    cleans_text: bool = False
    """True, for worker reports: text that cannot be stored is replaced instead of refused, for a report must never strand a job."""
    text: str | None = None
    """The media type of answers that are text and not JSON."""
    etag: bool = False
    """True, for lists and figures that are read again and again: answers carry an ETag, and `If-None-Match` spares the body."""
    document: Any = None
    """The body's model in the OpenAPI document, where it says more than `body`."""


@dataclass(slots=True)
class Call:
    """All that an endpoint may use. `body` and `query` are validated already if the operation has models for them."""

    request: Request
    principal: Principal
    database: Database
    sleep: Callable[[float], None]
    stage: str = "local"
    tick_budget_ms: int = 20_000
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    raw: Body | None = None
    ring: KeyRing | None = None
    audit: Auditing | None = None
    sessions: SigningKeys | None = None
    """The keys that sign access tokens."""
    trusted_proxies: int = 0

    @property
    def project_id(self) -> str:
        """The project that the caller belongs to; every look-up is within it."""
        return self.principal.project_id

    @property
    def plain(self) -> Database:
        """The database without notes: for looks before a change, and for changes that need transactions of their own."""
        return self.audit.plain if self.audit is not None else self.database

    def note(self, kind: str, target_id: str, **what: Any) -> None:
        """Takes a note for the audit log, see audit.Auditing.note; within `database.run`. Data-plane traffic is not noted."""
        if self.audit is not None:
            self.audit.note(kind, target_id, **what)


def operation(**marks: Any) -> Callable[[F], F]:
    """Marks an endpoint."""

    def mark(endpoint: F) -> F:
        endpoint.operation = Operation(**marks)  # type: ignore[attr-defined]  # a function takes any attribute
        return endpoint

    return mark
