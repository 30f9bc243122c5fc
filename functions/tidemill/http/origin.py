"""Whether a request came through our own front door, which adds a secret header; only AWS stages with one have such a secret."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final

HEADER: Final = "x-tidemill-origin"


def came_through(event: Mapping[str, Any], digest: str | None) -> bool:
    """digest: SHA-256 of the secret, in hex, or two with a comma while one takes over from the other; None = there is no door."""
    if digest is None:
        return True
    headers = event.get("headers")
    given = [str(v) for k, v in headers.items() if str(k).lower() == HEADER] if isinstance(headers, Mapping) else []
    if len(given) != 1:
        return False
    found = hashlib.sha256(given[0].encode()).hexdigest()
    return any(hmac.compare_digest(found, each) for each in digest.split(","))
