"""From an empty (or a kept) data folder to a migrated database with somebody in it."""

import contextlib
import secrets
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from uuid import uuid4

from tidemill import credentials, passwords
from tidemill.credentials import Credentials
from tidemill.domain import api_keys
from tidemill.domain.errors import TidemillError
from tidemill.local.options import CannotStart

EMAIL = "owner@tidemill.local"
STAGE = "local"


def new_credentials() -> Credentials:
    """A fresh key and password. The database learns their hashes, the data folder keeps them."""
    key = api_keys.compose(STAGE, uuid4(), secrets.token_urlsafe(api_keys.SECRET_BYTES))
    return Credentials(api_key=key.text, admin_email=EMAIL, admin_password=secrets.token_urlsafe(12))


def found(folder: Path, dsn: str, prepared: tuple[Credentials, str], url: str) -> Credentials:
    """Migrated, founded, and written down in the folder: what the folder keeps already, or what `prepare` made.

    CannotStart if the folder, or what is in it, says no.
    """
    from tidemill.store.bootstrap import Founding, bootstrap
    from tidemill.store.database import connect
    from tidemill.store.migrate import migrate

    kept = _kept(folder)
    fresh, password_hash = prepared
    if kept is not None and kept.api_key != fresh.api_key:
        password_hash = passwords.hash_password(kept.admin_password)
    ours = kept or fresh
    try:
        migrate(dsn)
    except TidemillError as error:
        raise CannotStart(f"data folder {folder}: {error.detail}; choose another with --data-dir, or --ephemeral for none") from error
    with connect(dsn) as conn:
        founding = Founding(
            email=ours.admin_email, password_hash=password_hash, sets_password=kept is None, api_key=api_keys.parse(ours.api_key)
        )  # fmt: skip
        founded = bootstrap(conn, founding)
    ours = replace(ours, project_id=founded.project_id, url=url, dsn=dsn)
    try:
        credentials.write(folder, ours)
    except OSError as error:
        raise CannotStart(f"data folder {folder}: cannot be written: {error.strerror}") from error
    return ours


def prepare(folder: Path | None) -> tuple[Credentials, str]:
    """Credentials (the folder's, or new ones) and the hash of the password: a third of a second that can overlap with others'.

    Loads the database's driver too, which is half of what the instance loads: nobody needs it before the server's files are made.
    A folder that cannot be read is not told about here: the server, which starts meanwhile, says it better.
    """
    ours = None
    with contextlib.suppress(CannotStart):
        ours = _kept(folder) if folder is not None else None
    ours = ours or new_credentials()
    password_hash = passwords.hash_password(ours.admin_password)
    for module in ("bootstrap", "database", "migrate"):
        import_module(f"tidemill.store.{module}")
    return ours, password_hash


def _kept(folder: Path) -> Credentials | None:
    try:
        kept = credentials.read(folder)
    except OSError as error:
        raise CannotStart(f"data folder {folder}: {credentials.FILE_NAME} cannot be read: {error.strerror}") from error
    return kept if kept is not None and api_keys.parse(kept.api_key) is not None else None
