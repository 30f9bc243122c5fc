"""The page at `/`: the built one file with a policy that lets only its own script and style run, or a word that it is not built."""

import base64
import functools
import gzip
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from tidemill.local.gateway_events import Response
from tidemill.local.runtime.functions import ROOT

BUILT = ROOT.parent / "frontend" / "dist" / "index.html"
_NOT_BUILT = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>tidemill</title>"
    "<p>tidemill is running. The page is not built: there is no frontend/dist/index.html. The API is below <code>/v1</code>.</p></html>\n"
)


@dataclass(frozen=True)
class _Page:
    body: bytes
    zipped: bytes
    etag: str
    policy: str


def response(built: Path = BUILT, *, knows: str = "", takes: str = "") -> Response:
    """The page with its headers; a fresh build shows at once.

    knows: the request's `if-none-match`: 304 where it names what is there. takes: its `accept-encoding`.
    """
    try:
        stat = built.stat()
        found = _read(built, (stat.st_mtime_ns, stat.st_size))
    except (OSError, UnicodeDecodeError):
        found = _made(_NOT_BUILT)
    headers = [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", found.policy),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-cache"),
        ("etag", found.etag),
        ("vary", "accept-encoding"),
    ]
    if found.etag in knows:
        return Response(304, headers)
    if "gzip" in takes:
        return Response(200, [*headers, ("content-encoding", "gzip")], found.zipped)
    return Response(200, headers, found.body)


@functools.lru_cache(maxsize=2)
def _read(built: Path, _as_of: tuple[int, int]) -> _Page:
    """What the file holds. `_as_of`, its time and size, make it another one when it is built anew."""
    return _made(built.read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=2)
def _made(text: str) -> _Page:
    body = text.encode()
    return _Page(body, gzip.compress(body), f'"{hashlib.sha256(body).hexdigest()[:32]}"', policy(text))


def policy(html: str) -> str:
    """The Content-Security-Policy of a single file: its inline scripts and styles by hash, connections to its own origin only."""
    parts = {
        "default-src": "'none'",
        "script-src": _hashes(html, "script"),
        "style-src": _hashes(html, "style"),
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items())


def _hashes(html: str, tag: str) -> str:
    contents = re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", html, re.DOTALL | re.IGNORECASE)
    digests = (base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() for content in contents if content)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
