"""The page at `/`: the built one file with a policy that lets only its own script and style run, or a word that it is not built."""

import base64
import hashlib
import re
from pathlib import Path

from tidemill.local.gateway_events import Response
from tidemill.local.runtime.functions import ROOT

BUILT = ROOT.parent / "frontend" / "dist" / "index.html"
_NOT_BUILT = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>tidemill</title>"
    "<p>tidemill is running. The page is not built: there is no frontend/dist/index.html. The API is below <code>/v1</code>.</p></html>\n"
)


def response(built: Path = BUILT) -> Response:
    """The page with its headers, read anew each time so that a fresh build shows."""
    try:
        text = built.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = _NOT_BUILT
    headers = [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", policy(text)),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-cache"),
    ]
    return Response(200, headers, text.encode())


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
