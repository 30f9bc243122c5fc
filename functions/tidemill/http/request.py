"""A request as the endpoints see it, whatever the gateway's event looked like (HTTP API 2.0, HTTP API 1.0, REST)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

from tidemill.domain.errors import Fault, Invalid, Unauthenticated, Unavailable
from tidemill.domain.text import storable
from tidemill.http import paths

Event = Mapping[str, Any]
QUERY_PARAMETERS: Final = 100
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_=+./-]{1,200}")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling, as the authorizer found out."""

    kind: str
    id: str
    project_id: str
    scopes: frozenset[str]
    session_id: str = ""
    """A user's login."""
    role: str = ""
    """A user's, in the organization that the request is about."""
    org_id: str = ""
    hides_payloads: bool = False
    """True: the organization shows this role no payloads."""


@dataclass(slots=True)
class Request:
    """Method and normalised path, lower-case headers, query pairs in order, the body still raw."""

    method: str
    path: str
    headers: Mapping[str, str]
    query: list[tuple[str, str]]
    body: Any
    is_base64: bool
    authorizer: Mapping[str, Any]
    request_id: str
    source_ip: str
    cookies: Mapping[str, str] = field(repr=False)
    answers_cookies: bool
    """True: the gateway takes cookies apart from the other headers."""
    remaining_ms: Callable[[], int] = field(repr=False)

    @classmethod
    def of(cls, event: Event, context: Any) -> Request:
        """Reads the event; raises nothing, for an event that makes no request has no route either."""
        about = _dict(event.get("requestContext"))
        http = _dict(about.get("http"))
        path = str(event.get("rawPath") or event.get("path") or http.get("path") or "/")
        stage = about.get("stage")
        method = str(http.get("method") or event.get("httpMethod") or about.get("httpMethod") or "GET").upper()
        return cls(
            method=method,
            path=paths.normalised(path, stage if isinstance(stage, str) else None, method),
            headers=_headers(event),
            query=_query(event),
            body=event.get("body"),
            is_base64=str(event.get("isBase64Encoded", "")).lower() == "true",
            authorizer=_authorizer(about),
            request_id=_request_id(about, context),
            source_ip=str(http.get("sourceIp") or _dict(about.get("identity")).get("sourceIp") or ""),
            cookies=_cookies(event),
            answers_cookies=event.get("version") == "2.0",
            remaining_ms=getattr(context, "get_remaining_time_in_millis", lambda: 30_000),
        )

    def principal(self) -> Principal:
        """Who is calling; Unauthenticated if the authorizer let nobody in (or was not asked), Unavailable if it could not look."""
        said = self.authorizer
        if said.get("fault") in ("unavailable", "internal"):
            raise Unavailable("nobody can say at the moment who is calling: try again", retry_after_secs=1)
        is_user = said.get("principal_kind") == "user" and bool(said.get("session_id"))
        if said.get("fault") != "" or not (said.get("project_id") or is_user):
            raise unauthenticated()
        if is_user:
            return Principal("user", str(said.get("principal_id")), "", frozenset(), session_id=str(said["session_id"]))
        scopes = frozenset(str(said.get("scopes", "")).split(","))
        return Principal(str(said.get("principal_kind")), str(said.get("principal_id")), str(said["project_id"]), scopes)

    def parameters(self) -> dict[str, list[str]]:
        """Query values by name, in order. Invalid for text that no stored thing can have."""
        found: dict[str, list[str]] = {}
        for name, value in self.query:
            if not storable(name) or not storable(value):
                raise Invalid([Fault(("query", name.encode("ascii", "replace").decode()), "holds a character that cannot be stored")])
            found.setdefault(name, []).append(value)
        return found


def unauthenticated() -> Unauthenticated:
    """The one text for whatever is wrong with a token."""
    return Unauthenticated("give a valid token: Authorization: Bearer tm_<stage>_<key id>_<secret>, or one from /v1/auth/login")


def _cookies(event: Event) -> dict[str, str]:
    sent = event.get("cookies")
    parts = [str(one) for one in sent] if isinstance(sent, list) else _headers(event).get("cookie", "").split(";")
    pairs = (part.strip().partition("=") for part in parts)
    return {name: value for name, sign, value in pairs if sign}


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _headers(event: Event) -> dict[str, str]:
    found = {str(k).lower(): str(v) for k, v in _dict(event.get("headers")).items() if v is not None}
    for name, values in _dict(event.get("multiValueHeaders")).items():
        if isinstance(values, list) and values:
            found[str(name).lower()] = ",".join(map(str, values))
    return found


def _query(event: Event) -> list[tuple[str, str]]:
    raw = event.get("rawQueryString")
    if isinstance(raw, str):
        try:
            return parse_qsl(raw, keep_blank_values=True, max_num_fields=QUERY_PARAMETERS)
        except ValueError:
            return [("(more than 100 parameters)", "")]
    many = _dict(event.get("multiValueQueryStringParameters"))
    pairs = [(str(k), str(v)) for k, vs in many.items() if isinstance(vs, list) for v in vs]
    return pairs or [(str(k), str(v)) for k, v in _dict(event.get("queryStringParameters")).items()]


def _authorizer(about: Mapping[str, Any]) -> Mapping[str, Any]:
    said = _dict(about.get("authorizer"))
    return _dict(said.get("lambda")) or said


def _request_id(about: Mapping[str, Any], context: Any) -> str:
    for given in (about.get("requestId"), getattr(context, "aws_request_id", None)):
        if isinstance(given, str) and _REQUEST_ID.fullmatch(given):
            return given
    return str(uuid.uuid4())
