"""Rules of logging in and staying in: how long what lives, who has to wait, and what a refresh token that comes in means."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

ACCESS_SECS: Final = 900
"""An access token's life. Ending a session ends it sooner: within the minute for which gateways remember a caller."""

IDLE_SECS: Final = 14 * 86_400
FAMILY_SECS: Final = 90 * 86_400
"""A login lasts while it is used at least once in the idle time, but not longer than this."""

GRACE_MS: Final = 10_000
"""For so long a spent refresh token is taken again: two tabs that wake at once both hand in the same one."""

OVERLAP_SECS: Final = 3_600
"""For how long tokens of a retired signing key are taken back."""

ROTATE_SECS: Final = 90 * 86_400
"""A key signs for so long, then the scheduler makes the next one."""

AUDIT_KEPT_DAYS: Final = 400
"""For how long notes of the audit log are kept; the database refuses less than a year."""

PASSWORD_CHARS: Final = (12, 200)
FORGET_SECS: Final = 900
SLOTS: Final = 65_536


class Patience(NamedTuple):
    """Failures that cost no wait; each further one doubles it, from one second up to `most_secs`."""

    free: int
    most_secs: int


ACCOUNT: Final = Patience(5, 60)
ADDRESS: Final = Patience(30, 300)


class Refresh(Enum):
    """What to do with a refresh token."""

    RENEW = "renew"
    REFUSE = "refuse"
    END_FAMILY = "end_family"


def refresh_rule(*, is_over: bool, rotated_ms: int | None) -> Refresh:
    """`rotated_ms`: how long ago the token was spent, None if it was not.

    One that comes again after the grace is in two hands: nobody can say which is the thief's, so the family ends.
    """
    if is_over:
        return Refresh.REFUSE
    if rotated_ms is None or rotated_ms <= GRACE_MS:
        return Refresh.RENEW
    return Refresh.END_FAMILY
