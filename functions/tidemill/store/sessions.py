"""Logins, refresh tokens and passwords. Only digests and hashes are stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from tidemill.domain.sessions import FAMILY_SECS, FORGET_SECS, IDLE_SECS, Patience
from tidemill.store.base import Adapter
from tidemill.store.statements import sql


class User(NamedTuple):
    """Who logs in; `password_hash` is None for who has none."""

    id: str
    email: str
    full_name: str
    password_hash: str | None = None


class Slot(NamedTuple):
    """Where the failures of one account or address are counted."""

    number: int
    key: bytes


class Taken(NamedTuple):
    """A refresh token that was handed in; `rotated_ms`: how long ago it was exchanged, None if it was not."""

    id: str
    family_id: str
    user: User
    is_over: bool
    rotated_ms: int | None


class Sessions(Adapter):
    """Each method is one statement."""

    def count_login(self, kind: str, slot: Slot, patience: Patience) -> int:
        """Counts a login that is about to be tried; 0, or the seconds to wait instead."""
        params = {"kind": kind, "slot": slot.number, "key": slot.key, **patience._asdict(), "forget_secs": FORGET_SECS}
        row = self._row("sessions/attempt", params)
        return int(row[1]) if row and row[0] else 0

    def forgive(self, account: Slot, address: Slot) -> None:
        """A login has succeeded."""
        self._conn.execute(
            sql("sessions/forgive"),
            {"account_slot": account.number, "account_key": account.key, "address_slot": address.number, "address_key": address.key},
        )

    def user(self, *, email: str | None = None, user_id: str | None = None) -> User | None:
        """The active user of this email or id."""
        row = self._row("sessions/user", {"email": email, "id": user_id})
        return User._make(row) if row else None

    def begin_session(self, session_id: str, user_id: str, family_id: str, refresh_hash: bytes) -> int:
        """A new family of refresh tokens with its first; the database's time in seconds."""
        params = {"id": session_id, "user_id": user_id, "family_id": family_id, "refresh_hash": refresh_hash, "idle_secs": IDLE_SECS}
        row = self._row("sessions/begin", params)
        assert row is not None
        return int(row[0])

    def take_refresh(self, refresh_hash: bytes) -> Taken | None:
        """The session of a refresh token, locked; None if there is none."""
        row = self._row("sessions/take", {"refresh_hash": refresh_hash})
        return Taken(row[0], row[1], User(row[2], row[3], row[4]), row[5], row[6]) if row else None

    def rotate(self, from_id: str, session_id: str, refresh_hash: bytes) -> int | None:
        """The family's next token; the database's time in seconds, None if its life is over."""
        params = {"from_id": from_id, "id": session_id, "refresh_hash": refresh_hash, "idle_secs": IDLE_SECS, "most_secs": FAMILY_SECS}
        row = self._row("sessions/rotate", params)
        return int(row[0]) if row else None

    def end_family(self, family_id: str) -> int:
        """Ends a login; how many tokens were alive."""
        return len(self._end({"family_id": family_id, "user_id": None, "keep_family_id": None}))

    def end_sessions(self, user_id: str, *, but: str | None) -> int:
        """Ends all logins of a user but one."""
        return len(self._end({"family_id": None, "user_id": user_id, "keep_family_id": but}))

    def set_password(self, user_id: str, password_hash: str) -> None:
        """A new password."""
        self._conn.execute(sql("sessions/set_password"), {"user_id": user_id, "password_hash": password_hash})

    def prune_sessions(self, limit: int, *, now: datetime | None) -> int:
        row = self._row("scheduler/prune_sessions", {"limit": limit, "now": now})
        return int(row[0]) if row else 0

    def prune_audit(self, kept_days: int, limit: int) -> int:
        row = self._row("scheduler/prune_audit", {"kept_days": kept_days, "limit": limit})
        return int(row[0]) if row else 0

    def tend_signing_keys(self, older_secs: int, overlap_secs: int, *, now: datetime | None) -> tuple[int, int]:
        row = self._row("keys/tend_signing", {"older_secs": older_secs, "overlap_secs": overlap_secs, "now": now})
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def rotate_signing_key(self, purpose: str, secret: bytes, *, retired_secs_ago: int) -> str:
        """The kid of the key that signs from now on."""
        row = self._row("keys/rotate_signing", {"purpose": purpose, "secret": secret, "ago_secs": retired_secs_ago})
        assert row is not None
        kid: str = row[0]
        return kid

    def _end(self, which: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._rows("sessions/end", which)
