"""Cursors: where a list goes on, signed so that only what we handed out is taken back, and only for the same list.

Text: base64url of `kid (16 bytes) + mac (16 bytes) + position (JSON)`. The MAC covers endpoint, project and filter as well,
which are not in the text: with any other of them it does not verify.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidemill.domain.errors import Fault, Internal, Invalid
from tidemill.domain.keys import canonical_json
from tidemill.http.key_ring import KeyRing
from tidemill.ports.signing import SigningKey

MAC_BYTES: Final = 16


class Cursors:
    """Signs and checks the cursors of one list."""

    def __init__(self, ring: KeyRing, endpoint: str, project_id: str, filters: Mapping[str, Any]) -> None:
        self._ring = ring
        self._bound = canonical_json([endpoint, project_id, dict(filters)]).encode("utf-8", "surrogatepass")

    def text(self, position: Sequence[Any]) -> str:
        """The cursor for a position."""
        key = next((key for key in self._ring.read() if key.signs), None)
        if key is None:
            raise Internal("no key signs cursors: add one to tidemill.signing_keys")
        raw = json.dumps(list(position), separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(uuid.UUID(key.kid).bytes + self._mac(key, raw) + raw).rstrip(b"=").decode()

    def position(self, text: str) -> list[Any]:
        """The position in a cursor that was signed for this list; Invalid for any other text."""
        try:
            raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error, ValueError):
            raise _refused() from None
        kid, mac, position = raw[:16], raw[16 : 16 + MAC_BYTES], raw[16 + MAC_BYTES :]
        for fresh in (False, True):
            for key in self._ring.read(fresh=fresh):
                if uuid.UUID(key.kid).bytes == kid:
                    if not hmac.compare_digest(self._mac(key, position), mac):
                        raise _refused()
                    found: list[Any] = json.loads(position)
                    return found
        raise _refused()

    def _mac(self, key: SigningKey, position: bytes) -> bytes:
        message = len(self._bound).to_bytes(4, "big") + self._bound + position
        return hmac.new(key.secret, message, hashlib.sha256).digest()[:MAC_BYTES]


def _refused() -> Invalid:
    return Invalid([Fault(("query", "cursor"), "is not a cursor of this list with these filters: start again without one")])
