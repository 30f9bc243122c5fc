"""Access tokens: JWTs that say which user and which login, signed for a quarter of an hour. Loads jwt only when used."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidemill.domain.errors import Internal
from tidemill.domain.sessions import ACCESS_SECS
from tidemill.ports.signing import SigningKeys

ALGORITHM: Final = "HS256"
LEEWAY_SECS: Final = 30
"""Between the database's clock, which dates tokens, and the one of the machine that checks them."""


class Claims(NamedTuple):
    """What a valid token says."""

    user_id: str
    family_id: str


def issue(keys: SigningKeys, claims: Claims, *, stage: str, now: int) -> str:
    """A token from `now` (seconds) on. Internal if there is no key."""
    import jwt

    key = next((key for key in keys.read() if key.signs), None)
    if key is None:
        raise Internal("no key signs sessions: add one to tidemill.signing_keys")
    body = {"iss": _issuer(stage), "sub": claims.user_id, "sid": claims.family_id, "iat": now, "exp": now + ACCESS_SECS}
    return jwt.encode(body, key.secret, algorithm=ALGORITHM, headers={"kid": key.kid})


def read(keys: SigningKeys, token: str, *, stage: str) -> Claims | None:
    """The claims of a token of this stage that is valid now; None for any other text."""
    import jwt

    try:
        kid = jwt.get_unverified_header(token).get("kid")
        secret = next((key.secret for fresh in (False, True) for key in keys.read(fresh=fresh) if key.kid == kid), None)
        if secret is None:
            return None
        body = jwt.decode(
            token, secret, algorithms=[ALGORITHM], issuer=_issuer(stage), leeway=LEEWAY_SECS,
            options={"require": ["exp", "iat", "iss", "sub", "sid"]},
        )  # fmt: skip
    except jwt.InvalidTokenError:
        return None
    user_id, family_id = body["sub"], body["sid"]
    return Claims(user_id, family_id) if isinstance(family_id, str) else None


def _issuer(stage: str) -> str:
    return f"tidemill:{stage}"
