"""HTTP API payload format 2.0: from a request to the event a Lambda gets, and from its answer back to a response.

Facts from the vendor's page "AWS Lambda proxy integrations for HTTP APIs", and from captures of live gateways where the page
is silent: `rawPath` arrives percent-decoded, `rawQueryString` as it was sent.
"""

import base64
import binascii
import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

DEFAULT_STAGE: Final = "$default"
API_ID: Final = "local"

_TEXT = re.compile(r"text/.*|application/(?:json|javascript|xml|[^;]+\+(?:json|xml))")
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "content-length", "date", "server"})


class NotAnAnswer(ValueError):
    """What the function returned is no response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it came over the wire; `headers` in order, names in any case, repeats allowed."""

    method: str
    path: str
    """Percent-decoded, with the stage in front if the gateway has one."""
    query: str = ""
    headers: Iterable[tuple[str, str]] = ()
    body: bytes = b""
    client_ip: str = "127.0.0.1"
    protocol: str = "HTTP/1.1"


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back over the wire. Header names are lower-case; `set-cookie` may repeat."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""


def to_event(
    request: Request, *, request_id: str, stage: str = DEFAULT_STAGE, route_key: str = DEFAULT_STAGE, now: float | None = None
) -> dict[str, Any]:
    """The event of a request, without an authorizer's context."""
    now = time.time() if now is None else now
    headers, cookies = _headers(request.headers)
    domain = headers.get("host", "localhost")
    headers.setdefault("x-forwarded-for", request.client_ip)
    headers.setdefault("x-forwarded-proto", "http")
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": route_key,
        "rawPath": request.path,
        "rawQueryString": request.query,
        "headers": headers,
        "requestContext": {
            "accountId": "000000000000",
            "apiId": API_ID,
            "domainName": domain.partition(":")[0],
            "domainPrefix": domain.partition(".")[0].partition(":")[0],
            "http": {
                "method": request.method,
                "path": request.path,
                "protocol": request.protocol,
                "sourceIp": request.client_ip,
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": request_id,
            "routeKey": route_key,
            "stage": stage,
            "time": time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(now)),
            "timeEpoch": int(now * 1000),
        },
        "isBase64Encoded": False,
    }
    if cookies:
        event["cookies"] = cookies
    if request.query:
        event["queryStringParameters"] = _joined(parse_qsl(request.query, keep_blank_values=True))
    if request.body:
        event["body"], event["isBase64Encoded"] = _body(request.body, headers)
    return event


def to_authorizer_event(event: Mapping[str, Any], identity: str) -> dict[str, Any]:
    """What a REQUEST authorizer (payload 2.0) is asked, for an event of ours."""
    context = event["requestContext"]
    asked = {name: value for name, value in event.items() if name not in ("body", "isBase64Encoded")}
    arn = f"arn:aws:execute-api:local:{context['accountId']}:{API_ID}/{context['stage']}/{context['http']['method']}{event['rawPath']}"
    return {**asked, "type": "REQUEST", "routeArn": arn, "identitySource": [identity]}


def from_answer(raw: bytes) -> Response:
    """The response in a function's answer; without a `statusCode` the whole answer is the body, as the gateway infers it."""
    try:
        answer = json.loads(raw)
    except ValueError:
        raise NotAnAnswer("the function's answer is no JSON") from None
    if not isinstance(answer, dict) or "statusCode" not in answer:
        return Response(200, [("content-type", "application/json")], raw)
    try:
        status = int(answer["statusCode"])
        headers = [(str(name).lower(), _text(value)) for name, value in (answer.get("headers") or {}).items()]
        for name, values in (answer.get("multiValueHeaders") or {}).items():
            headers = [pair for pair in headers if pair[0] != str(name).lower()]
            headers.append((str(name).lower(), ",".join(_text(value) for value in values)))
        headers += [("set-cookie", str(cookie)) for cookie in answer.get("cookies") or ()]
        body = answer.get("body") or ""
        content = base64.b64decode(body, validate=True) if answer.get("isBase64Encoded") else _content(body)
    except (TypeError, ValueError, AttributeError, binascii.Error):
        raise NotAnAnswer("the function's answer has not the form of a response") from None
    if not 200 <= status <= 599 or any("\n" in value or "\r" in value for _, value in headers):
        raise NotAnAnswer("the function's answer has a status or a header that HTTP does not allow")
    return Response(status, [pair for pair in headers if pair[0] not in _HOP_BY_HOP], content)


def _headers(pairs: Iterable[tuple[str, str]]) -> tuple[dict[str, str], list[str]]:
    cookies = []
    plain = []
    for name, value in pairs:
        if name.lower() == "cookie":
            cookies += [part for part in (one.strip() for one in value.split(";")) if part]
        else:
            plain.append((name.lower(), value))
    return _joined(plain), cookies


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _body(body: bytes, headers: Mapping[str, str]) -> tuple[str, bool]:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if _TEXT.fullmatch(kind) and "content-encoding" not in headers:
        try:
            return body.decode("utf-8"), False
        except UnicodeDecodeError:
            pass  # JSON cannot carry it as text
    return base64.b64encode(body).decode("ascii"), True


def _content(body: Any) -> bytes:
    return body.encode("utf-8", "surrogatepass") if isinstance(body, str) else json.dumps(body).encode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
