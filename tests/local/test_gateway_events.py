"""Payload format 2.0, as the vendor describes it and as captures of live gateways show it."""

import base64
import json
from typing import Any

import pytest

from tidemill.local.gateway_events import NotAnAnswer, Request, Response, from_answer, to_authorizer_event, to_event


def event(**changes: Any) -> dict[str, Any]:
    request = Request(**{"method": "POST", "path": "/v1/jobs", **changes})
    return to_event(request, request_id="r-1", now=1_700_000_000.25)


def answer(**parts: Any) -> Response:
    return from_answer(json.dumps(parts).encode())


def test_the_request_context_says_what_was_asked_and_when() -> None:
    context = event(headers=[("Host", "127.0.0.1:8710"), ("User-Agent", "t/1")])["requestContext"]
    assert context["http"] == {
        "method": "POST", "path": "/v1/jobs", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "t/1",
    }  # fmt: skip
    assert (context["stage"], context["requestId"], context["domainName"]) == ("$default", "r-1", "127.0.0.1")
    assert (context["time"], context["timeEpoch"]) == ("14/Nov/2023:22:13:20 +0000", 1_700_000_000_250)


def test_header_names_are_lower_case_and_repeats_are_joined_in_order() -> None:
    headers = event(headers=[("X-Many", "a"), ("x-many", "b, c"), ("X-MANY", "d")])["headers"]
    assert headers["x-many"] == "a,b, c,d"
    assert all(name == name.lower() for name in headers)


def test_cookies_leave_the_headers() -> None:
    made = event(headers=[("Cookie", "a=1; b=2"), ("cookie", "c=3")])
    assert made["cookies"] == ["a=1", "b=2", "c=3"]
    assert "cookie" not in made["headers"]


def test_the_query_stays_as_it_was_sent_and_is_also_taken_apart() -> None:
    made = event(query="state=queued&state=running&q=a%20b&empty=")
    assert made["rawQueryString"] == "state=queued&state=running&q=a%20b&empty="
    assert made["queryStringParameters"] == {"state": "queued,running", "q": "a b", "empty": ""}


def test_no_query_no_body_no_cookies_are_absent_not_empty() -> None:
    assert event().keys().isdisjoint({"queryStringParameters", "body", "cookies"})
    assert event()["rawQueryString"] == ""


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "application/problem+json",
        "text/plain",
        "application/xml",
    ],
)
def test_text_travels_as_text(kind: str) -> None:
    made = event(headers=[("content-type", kind)], body='{"ü": "\U0001f30a"}'.encode())
    assert (made["body"], made["isBase64Encoded"]) == ('{"ü": "\U0001f30a"}', False)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([("content-type", "application/octet-stream")], b"abc"),
        ([("content-type", "application/x-www-form-urlencoded")], b"a=1"),
        ([], b"{}"),
        ([("content-type", "application/json"), ("content-encoding", "gzip")], b"\x1f\x8b"),
        ([("content-type", "application/json")], b'{"a": "\xff"}'),
    ],
    ids=["binary", "form", "untyped", "compressed", "not UTF-8"],
)
def test_all_else_travels_as_base64(headers: list[tuple[str, str]], body: bytes) -> None:
    made = event(headers=headers, body=body)
    assert made["isBase64Encoded"] is True
    assert base64.b64decode(made["body"]) == body


def test_the_authorizer_is_asked_without_the_body() -> None:
    asked = to_authorizer_event(event(body=b"secret", headers=[("authorization", "Bearer x")]), "Bearer x")
    assert "body" not in asked
    assert (asked["type"], asked["version"], asked["identitySource"]) == ("REQUEST", "2.0", ["Bearer x"])
    assert asked["routeArn"].endswith("/$default/POST/v1/jobs")


def test_an_answer_becomes_a_response() -> None:
    made = answer(statusCode=201, headers={"Content-Type": "application/json", "X-Number": 5}, cookies=["a=1", "b=2"], body='{"é": 1}')
    assert made.status == 201
    assert made.headers == [("content-type", "application/json"), ("x-number", "5"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]
    assert made.body == '{"é": 1}'.encode()


def test_a_binary_answer_is_decoded() -> None:
    assert answer(statusCode=200, body=base64.b64encode(b"\x00\xff").decode(), isBase64Encoded=True).body == b"\x00\xff"


def test_headers_that_belong_to_the_connection_are_dropped() -> None:
    made = answer(statusCode=200, headers={"Connection": "close", "Content-Length": "999", "x-kept": "1"}, body="")
    assert made.headers == [("x-kept", "1")]


def test_an_answer_without_a_status_is_the_body() -> None:
    assert from_answer(b'{"jobs": 3}') == Response(200, [("content-type", "application/json")], b'{"jobs": 3}')


@pytest.mark.parametrize(
    "raw",
    [b"not json", b'{"statusCode": "x"}', b'{"statusCode": 42}', b'{"statusCode": 200, "headers": 5}',
     b'{"statusCode": 200, "body": "%%%", "isBase64Encoded": true}', b'{"statusCode": 200, "headers": {"a": "b\\r\\nc: d"}}'],
)  # fmt: skip
def test_what_is_no_response_is_refused(raw: bytes) -> None:
    with pytest.raises(NotAnAnswer):
        from_answer(raw)
