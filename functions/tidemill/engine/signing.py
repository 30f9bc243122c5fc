"""Keys that sign: the next one comes by itself, and the last one goes once nothing it signed is taken any more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from tidemill.domain.sessions import OVERLAP_SECS, ROTATE_SECS


class SigningKeyStore(Protocol):
    """What tending them needs."""

    def tend_signing_keys(self, older_secs: int, overlap_secs: int, *, now: datetime | None) -> tuple[int, int]:
        """(made, removed): a new key for each purpose whose newest is that old, and an end to those that retired that long ago."""


def tend(store: SigningKeyStore, *, now: datetime | None = None) -> Mapping[str, int]:
    """How many keys were made and removed. Any number may do it at once: one makes the key, the others find it made."""
    made, removed = store.tend_signing_keys(ROTATE_SECS, OVERLAP_SECS, now=now)
    return {"made": made, "removed": removed}
