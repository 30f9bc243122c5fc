"""From what the gateway hands over to a JSON value: base64, media type, size, encoding, strict JSON.

Decoded before it is measured, measured before it is parsed. JSON is read strictly (no NaN, no infinity, no number beyond
what a double or 4,300 digits hold, at most 128 levels deep); of duplicate keys the last one counts; integers of any size and
floats stay what they are.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from itertools import chain
from typing import Any, Final

from tidemill.domain import limits
from tidemill.domain.errors import MalformedBody, PayloadTooLarge, UnsupportedMediaType
from tidemill.http.request import Request

_ESCAPES: Final = re.compile(r"\\u(0000|[dD][89a-fA-F])")
_EXPONENT: Final = re.compile(r"[0-9][eE][+-]?[0-9]")
_NO_BRACKETS: Final = re.compile(r"[^\[\]{}]+")
_ONE_KIND: Final = str.maketrans("{}", "[]")
_TYPES: Final = re.compile(r"application/(json|[a-z0-9.+-]+\+json)")


class Body:
    """A parsed body: its `value`, and what its text tells about the work that is left."""

    __slots__ = ("may_be_large", "may_be_unstorable", "value")

    def __init__(self, value: Any, text: str, size_bytes: int | None = None) -> None:
        self.value = value
        self.may_be_unstorable = _ESCAPES.search(text) is not None
        """False: no string in it holds NUL or a lone surrogate."""
        size = size_bytes if size_bytes is not None else len(text.encode("utf-8", "surrogatepass"))
        self.may_be_large = size > limits.PAYLOAD_BYTES or _EXPONENT.search(text) is not None
        """False: no part of it is over the payload's limit. (Written out in full, only a number with an exponent grows.)"""


def read(request: Request, *, optional: bool = False) -> Body:
    """The request's JSON. With `optional` an empty body is `{}`, whatever type it claims to have."""
    raw = _raw(request)
    if not raw.strip():
        if optional:
            return Body({}, "{}")
        raise MalformedBody("the body is empty: send JSON")
    _check_type(request)
    text = _text(raw)
    return Body(parsed(text), text, len(raw))


def parsed(text: str) -> Any:
    """The value of a JSON text; MalformedBody for what is not strict JSON. Never quotes the text."""
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        raise MalformedBody(f"not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except ValueError as error:  # from int(): more digits than it takes
        raise MalformedBody(_number_fault(error)) from None
    if text.count("[") + text.count("{") > limits.JSON_DEPTH:
        _check_depth(text, value)
    return value


def _raw(request: Request) -> bytes:
    body = request.body
    if body is None:
        return b""
    if not isinstance(body, str):
        raise MalformedBody("the gateway handed over a body that is no text")
    if not request.is_base64:
        if len(body) > limits.BODY_BYTES:
            raise _too_large()
        raw = body.encode("utf-8", "surrogatepass")
    else:
        if len(body) // 4 * 3 > limits.BODY_BYTES + 3:
            raise _too_large()
        try:
            raw = base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError):
            raise MalformedBody("the body is not valid base64") from None
    if len(raw) > limits.BODY_BYTES:
        raise _too_large()
    return raw


def _check_type(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMediaType("content-encoding: send the body as it is, not compressed")
    media_type, *parameters = request.headers.get("content-type", "").lower().split(";")
    if not _TYPES.fullmatch(media_type.strip()):
        raise UnsupportedMediaType("content-type: send application/json")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(" \"'") not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedMediaType("content-type: send UTF-8")


def _text(raw: bytes) -> str:
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise MalformedBody("the body is UTF-16: send UTF-8")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedBody(f"the body is not UTF-8 from byte {error.start}") from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise MalformedBody("a number is beyond what a double holds (1.8e308)")
    return value


def _refuse_constant(text: str) -> Any:
    raise MalformedBody(f"{text} is no JSON: NaN and infinities cannot be sent")


_DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)


def _check_depth(text: str, value: Any) -> None:
    """Takes pairs of brackets away from the inside, one level at a time. Brackets in strings may not pair: then the value is walked."""
    brackets = _NO_BRACKETS.sub("", text).translate(_ONE_KIND)
    for _ in range(limits.JSON_DEPTH):
        fewer = brackets.replace("[]", "")
        if not fewer:
            return
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limits.JSON_DEPTH):
        if not level:
            return
        inner = chain.from_iterable(v.values() if type(v) is dict else v for v in level)
        level = [v for v in inner if type(v) is dict or type(v) is list]
    if level:
        raise _too_deep()


def _too_deep() -> MalformedBody:
    return MalformedBody(f"nested deeper than {limits.JSON_DEPTH} levels")


def _too_large() -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is over {limits.BODY_BYTES:,} bytes: send less at once")


def _number_fault(error: ValueError) -> str:
    digits = "digits" in str(error)
    return f"a number has more than {limits.NUMBER_DIGITS:,} digits" if digits else "not JSON"
