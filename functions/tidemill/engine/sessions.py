"""Logging in, staying in, and leaving. Passwords are compared by the caller, outside of every transaction: that takes long on purpose."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tidemill.domain.errors import Throttled
from tidemill.domain.sessions import ACCOUNT, ADDRESS, Patience, Refresh, refresh_rule
from tidemill.ports import Transactions


class Who(Protocol):
    """A user."""

    @property
    def id(self) -> str:
        """A uuid."""

    @property
    def email(self) -> str:
        """In lower case."""

    @property
    def full_name(self) -> str:
        """May be empty."""


class Taken(Protocol):
    """A refresh token that was handed in."""

    @property
    def id(self) -> str:
        """The session's."""

    @property
    def family_id(self) -> str:
        """The login's."""

    @property
    def user(self) -> Who:
        """Whose."""

    @property
    def is_over(self) -> bool:
        """Ended, expired, or its user is not active."""

    @property
    def rotated_ms(self) -> int | None:
        """How long ago it was spent."""


class Renewed(NamedTuple):
    """A refresh that was granted."""

    user: Who
    family_id: str
    now: int


def knock(attempt: Callable[[str, Patience], int]) -> None:
    """Counts a login for its address and its account before it is tried. Throttled if one of them has to wait.

    A refused one is not counted: an account that is under attack is shut for a minute at a time, not for good.
    """
    for kind, patience in (("address", ADDRESS), ("account", ACCOUNT)):
        if wait_secs := attempt(kind, patience):
            raise Throttled("too many failed logins: wait before the next one", retry_after_secs=wait_secs)


class RefreshStore(Transactions, Protocol):
    """What `refresh` asks of a database."""

    def take_refresh(self, refresh_hash: bytes) -> Taken | None:
        """The session of a refresh token, locked; None if there is none."""

    def rotate(self, from_id: str, session_id: str, refresh_hash: bytes) -> int | None:
        """The family's next token; the database's time in seconds, None if the family's life is over."""

    def end_family(self, family_id: str) -> int:
        """Ends a login; how many tokens were alive."""


def digest(token: str) -> bytes:
    """What is stored of a refresh token. It has 256 random bits, so a plain hash is as good as a slow one."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def refresh(store: RefreshStore, token: str, *, session_id: str, next_token: str) -> tuple[Renewed | None, Taken | None]:
    """Exchanges a refresh token for `next_token`: what was granted; or None, and the session that was ended for it (see refresh_rule)."""
    with store.transaction():
        taken = store.take_refresh(digest(token))
        if taken is None:
            return None, None
        rule = refresh_rule(is_over=taken.is_over, rotated_ms=taken.rotated_ms)
        if rule is Refresh.END_FAMILY:
            store.end_family(taken.family_id)
            return None, taken
        now = store.rotate(taken.id, session_id, digest(next_token)) if rule is Refresh.RENEW else None
        return (Renewed(taken.user, taken.family_id, now) if now is not None else None), None
