"""Password hashes: argon2id with the library's own (RFC 9106, low-memory) costs. Loads argon2 only when used."""

from __future__ import annotations

from functools import cache


def hash_password(password: str) -> str:
    """The text to store: algorithm, costs, salt and hash. Takes some 30 ms and 64 MiB for a moment."""
    from argon2 import PasswordHasher

    return PasswordHasher().hash(password)


def matches(password_hash: str, password: str) -> bool:
    """Is this the password? Takes as long as hashing; False for a stored text that is no hash."""
    from argon2 import PasswordHasher
    from argon2.exceptions import Argon2Error, InvalidHash

    try:
        return PasswordHasher().verify(password_hash, password)
    except (Argon2Error, InvalidHash):
        return False


def is_right(password_hash: str | None, password: str) -> bool:
    """As `matches`, but as slow where there is no password (None, or no hash) to compare with."""
    decoy = _decoy()
    if password_hash is None or not password_hash.startswith("$argon2"):
        matches(decoy, password)
        return False
    return matches(password_hash, password)


@cache
def _decoy() -> str:
    """A hash of something that nobody knows, made once, before the first comparison of whichever kind."""
    import secrets

    return hash_password(secrets.token_urlsafe(16))
