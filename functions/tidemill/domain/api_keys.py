"""API keys as text: `tm_<stage>_<key id>_<secret>`. The id finds the row, the digest of the whole text proves the key."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from uuid import UUID

SECRET_BYTES = 32

_FORM = re.compile(r"tm_([a-z][a-z0-9]{0,15})_([0-9a-f]{32})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key taken apart. `key_id` is a UUID with dashes; `text` is the secret whole and in no repr."""

    stage: str
    key_id: str
    text: str = field(repr=False)

    @property
    def digest(self) -> bytes:
        """What the database keeps: 32 bytes. The secret has 256 random bits, so a plain hash is as good as a slow one."""
        return hashlib.sha256(self.text.encode()).digest()


def parse(text: str) -> ApiKey | None:
    """The key in `text`; None if it has not the form of one."""
    match = _FORM.fullmatch(text)
    return ApiKey(match[1], str(UUID(hex=match[2])), text) if match else None


def compose(stage: str, key_id: UUID, secret: str) -> ApiKey:
    """A new key from its parts; `secret` is what `secrets.token_urlsafe(SECRET_BYTES)` gives."""
    key = parse(f"tm_{stage}_{key_id.hex}_{secret}")
    if key is None:
        raise ValueError("api key: the stage is 1 to 16 of a-z and 0-9, the secret 43 characters of base64url")
    return key
