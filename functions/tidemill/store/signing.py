"""A signing key changed by hand, for `tidemill accounts rotate-signing-key` and the migrator."""

from __future__ import annotations

import secrets
from typing import Any, Final, NamedTuple

from psycopg import Connection

from tidemill.domain.errors import Fault, Invalid
from tidemill.domain.sessions import OVERLAP_SECS
from tidemill.store.sessions import Sessions

PURPOSES: Final = ("session", "cursor")
SECRET_BYTES: Final = 48


class Rotated(NamedTuple):
    """The key that signs from now on, and for how long its predecessors are taken back."""

    kid: str
    purpose: str
    taken_back_secs: int


def rotate_signing_key(conn: Connection[Any], purpose: str = "session", *, has_leaked: bool = False) -> Rotated:
    """Makes the next key. Invalid for a purpose that is none.

    `has_leaked`: what the others signed is refused, everywhere after the five minutes for which keys are remembered.
    """
    if purpose not in PURPOSES:
        raise Invalid([Fault(("purpose",), f"{purpose!r} is none of {', '.join(PURPOSES)}")])
    store, overlap_secs = Sessions(conn), 0 if has_leaked else OVERLAP_SECS
    with store.transaction():
        kid = store.rotate_signing_key(purpose, secrets.token_bytes(SECRET_BYTES), retired_secs_ago=OVERLAP_SECS - overlap_secs)
    return Rotated(kid, purpose, overlap_secs)
