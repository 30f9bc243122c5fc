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
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from tidemill.domain.errors import Fault, Internal, Invalid
from tidemill.domain.keys import canonical_json
from tidemill.store.api_keys import SigningKey

KEPT_SECS: Final = 300.0
MAC_BYTES: Final = 16


class _Database(Protocol):
    def run(self, work: Any) -> Any:
        """Runs work on a store."""


class KeyRing:
    """The keys that sign, read when first needed and then every five minutes. One per Lambda environment."""

    def __init__(self, database: _Database) -> None:
        self._database = database
        self._keys: list[SigningKey] = []
        self._read_at = 0.0

    def read(self, *, fresh: bool = False) -> list[SigningKey]:
        """The newest first. `fresh`: read again, though not twice within a second."""
        now = time.monotonic()
        if not self._keys or now - self._read_at > (1.0 if fresh else KEPT_SECS):
            self._keys, self._read_at = self._database.run(lambda store: store.signing_keys()), now
        return self._keys


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
