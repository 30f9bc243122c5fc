"""The keys that sign, as one Lambda environment remembers them."""

from __future__ import annotations

import time
from typing import Any, Final, Protocol

from tidemill.ports.signing import SigningKey

KEPT_SECS: Final = 300.0


class _Database(Protocol):
    def run(self, work: Any) -> Any:
        """Runs work on a store."""


class KeyRing:
    """Keys of a purpose from the table `signing_keys`, read when first needed and then every five minutes. Fulfils ports.SigningKeys."""

    def __init__(self, database: _Database, purpose: str = "cursor") -> None:
        self._database, self._purpose = database, purpose
        self._keys: list[SigningKey] = []
        self._read_at = 0.0

    def read(self, *, fresh: bool = False) -> list[SigningKey]:
        """The newest first. `fresh`: read again, though not twice within a second."""
        now = time.monotonic()
        if not self._keys or now - self._read_at > (1.0 if fresh else KEPT_SECS):
            self._keys, self._read_at = self._database.run(lambda store: store.signing_keys(self._purpose)), now
        return self._keys
