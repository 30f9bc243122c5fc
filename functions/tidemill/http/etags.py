"""Conditional reads (RFC 9110 §13): who has the answer already gets 304 without it. For operations marked `etag=True`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from tidemill.http.operation import Answer

CACHING: Final[Mapping[str, str]] = {"cache-control": "private, no-cache", "vary": "authorization, x-tidemill-project"}
"""The caller's own cache may keep the answer, and asks each time whether it still holds."""

_TAG: Final = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def conditional(answer: Answer, headers: Mapping[str, str]) -> Answer:
    """A successful answer with its tag; 304 without a body if `if-none-match` names it. Any other answer as it is."""
    if answer.status != 200:
        return answer
    text = answer.text()
    tag = tag_of(text)
    more = {**answer.headers, **CACHING, "etag": tag}
    if is_named(tag, headers.get("if-none-match")):
        return Answer("", 304, more, answer.content_type)
    return Answer(text, 200, more, answer.content_type)


def tag_of(text: str) -> str:
    """The tag of a body: weak, because a gateway may compress it."""
    return f'W/"{hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]}"'


def is_named(tag: str, given: str | None) -> bool:
    """Does an If-None-Match header name this tag? Weak comparison: `W/` counts for nothing; `*` names every tag."""
    if given is None:
        return False
    return given.strip() == "*" or tag.removeprefix("W/") in _TAG.findall(given)
