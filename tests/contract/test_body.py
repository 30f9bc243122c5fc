"""Bodies: what is decoded, what is refused, and with which code."""

import base64
import itertools
import json
import time
from typing import Any

import pytest

from harness.clock import allowed
from tidemill.domain import limits
from tidemill.domain.errors import MalformedBody, PayloadTooLarge, TidemillError, UnsupportedMediaType
from tidemill.http import body
from tidemill.http.request import Request

JSON = {"content-type": "application/json"}


def request(text: Any, *, headers: dict[str, str] | None = None, is_base64: bool = False) -> Request:
    return Request(
        method="POST", path="/v1/jobs", headers=headers or JSON, query=[], body=text, is_base64=is_base64, authorizer={}, request_id="r",
        source_ip="127.0.0.1", cookies={}, answers_cookies=True, remaining_ms=lambda: 1_000,
    )  # fmt: skip


def read(text: Any, **more: Any) -> Any:
    return body.read(request(text, **more)).value


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON; Charset=UTF-8", 'application/json; charset="utf-8"', "application/cloudevents+json"],
)
def test_b068_json_types_in_any_case_are_read(content_type: str) -> None:
    assert read('{"a": "ü"}', headers={"content-type": content_type}) == {"a": "ü"}


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "multipart/form-data"]
)
def test_b068_other_types_are_unsupported(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        read("{}", headers={"content-type": content_type})


def test_b068_missing_type_and_compressed_bodies_are_unsupported() -> None:
    for headers in ({"accept": "*/*"}, {**JSON, "content-encoding": "gzip"}, {**JSON, "content-encoding": "br"}):
        with pytest.raises(UnsupportedMediaType):
            read("{}", headers=headers)


def test_b068_plain_and_base64_twins_are_the_same() -> None:
    text = json.dumps({"payload": ["ü", 1, 1.0, None]}, ensure_ascii=False)
    assert read(base64.b64encode(text.encode()).decode(), is_base64=True) == read(text)


@pytest.mark.parametrize("bad", ["%%%", "abc", "ab=c", "é"])
def test_b068_bad_base64_is_malformed(bad: str) -> None:
    with pytest.raises(MalformedBody, match="base64"):
        read(bad, is_base64=True)


@pytest.mark.parametrize("raw", [b"\xff\xfe{\x00}\x00", b"\xfe\xff\x00{\x00}", b"{\x00}\x00", b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}'])
def test_b068_bytes_that_are_no_utf8_are_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedBody):
        read(base64.b64encode(raw).decode(), is_base64=True)


def test_b068_a_byte_order_mark_is_skipped() -> None:
    assert read(base64.b64encode(b'\xef\xbb\xbf{"a":1}').decode(), is_base64=True) == {"a": 1}
    assert read('\ufeff{"a":1}') == {"a": 1}


@pytest.mark.parametrize("empty", [None, "", "  \n\t"])
def test_b068_empty_bodies_are_malformed_unless_optional(empty: str | None) -> None:
    with pytest.raises(MalformedBody, match="empty"):
        read(empty)
    assert body.read(request(empty, headers={"accept": "*/*"}), optional=True).value == {}


def test_b068_size_is_measured_after_decoding_and_before_parsing() -> None:
    fits = '{"a":"' + "x" * (limits.BODY_BYTES - 8) + '"}'
    assert read(base64.b64encode(fits.encode()).decode(), is_base64=True)["a"]
    for broken in ("[" * (limits.BODY_BYTES + 1), "ü" * (limits.BODY_BYTES // 2 + 1)):
        with pytest.raises(PayloadTooLarge, match="4,194,304"):
            read(broken)
        with pytest.raises(PayloadTooLarge):
            read(base64.b64encode(broken.encode()).decode(), is_base64=True)


@pytest.mark.parametrize(
    "text",
    ["NaN", "[Infinity]", "[-Infinity]", "[1e999999]", "[-1e400]", "[" * 200_000 + "]" * 200_000, "[" * 129 + "]" * 129,
     '{"a":' * 129 + "1" + "}" * 129, "[" + "9" * 4_301 + "]", "[" + "9" * 1_000_000 + "]", "{", "{'a':1}", '{"a":1,}', "[1] 2",
     '{"a":"\n"}', "01"],
    ids=itertools.count(),
)  # fmt: skip
def test_b070_what_is_no_strict_json_is_malformed_within_100_ms(text: str) -> None:
    began = time.process_time()
    with pytest.raises(MalformedBody) as caught:
        body.parsed(text)
    assert time.process_time() - began < allowed(0.1)
    assert len(caught.value.detail) < 120


def test_b070_legal_values_stay_what_they_are() -> None:
    text = '[12345678901234567890123, 0.1, 1.0, 1e2, -0, 1e-7, "1", ' + "[" * 127 + "]" * 127 + "]"
    value = body.parsed(text)
    assert value[:7] == [12345678901234567890123, 0.1, 1.0, 100.0, 0, 1e-7, "1"]
    assert [type(v) for v in value[:7]] == [int, float, float, float, int, float, str]


def test_b070_of_duplicate_keys_the_last_one_counts() -> None:
    assert body.parsed('{"a":1,"b":2,"a":3}') == {"a": 3, "b": 2}


@pytest.mark.parametrize("text", ['"' + "[" * 500 + '"', '["' + "{[" * 300 + '"]', '["}}]]",' + "[" * 100 + "]" * 100 + "]"])
def test_brackets_in_strings_are_no_depth(text: str) -> None:
    assert body.parsed(text) is not None


def test_a_deep_value_among_bracketed_strings_is_still_too_deep() -> None:
    with pytest.raises(MalformedBody, match="128"):
        body.parsed('["]]]]", ' + "[" * 128 + "]" * 128 + "]")


def test_no_fault_quotes_the_body() -> None:
    for text in ('{"password":"marker-7f3a', '["marker-7f3a", NaN]', "marker-7f3a", '{"a":marker-7f3a}'):
        with pytest.raises(TidemillError) as caught:
            body.parsed(text)
        assert "marker" not in caught.value.detail
