"""The folder of an embedded server: is it usable, who holds it, what runs on it.

LocalPostgresError
├── DataFolderUnusable   cannot be made, entered or written, or holds another major version
├── DataFolderInUse      another living process runs a server on it
└── ServerDidNotStart    the server's last words are in the text
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from tidemill.domain.errors import TidemillError
from tidemill.local.os_user import OsUser

MAJOR_VERSION = "18"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a fresh mkdtemp inside it
_ROOM_BYTES = 4 * 2**30


class LocalPostgresError(TidemillError):
    """Base of what the embedded server raises; `code` is stable."""

    code = "local_postgres"


class DataFolderUnusable(LocalPostgresError):
    """The folder cannot hold this server's data; the text says why and what to do."""

    code = "data_folder_unusable"

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(f"data folder {folder}: {why}; choose another with --data-dir, or --ephemeral for none")


class DataFolderInUse(LocalPostgresError):
    """Another living process runs a server on this folder."""

    code = "data_folder_in_use"


class ServerDidNotStart(LocalPostgresError):
    """The server ended, or was not ready in time."""

    code = "server_did_not_start"


def usable_folder(wanted: Path | None, user: OsUser, *, durable: bool) -> Path:
    """The folder, made if missing, that the server's user can enter; a new temporary one for None (in memory unless durable)."""
    if wanted is None:
        folder = Path(tempfile.mkdtemp(prefix="tidemill-", dir=None if durable else _memory()))
        user.own(folder)
    else:
        folder = wanted.expanduser().absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataFolderUnusable(folder, f"cannot be made: {error.strerror}") from None
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise DataFolderUnusable(folder, "cannot be written by this user")
    shut = user.let_in(folder)
    if shut is not None:
        raise DataFolderUnusable(folder, f"{shut} cannot be entered by the user the server runs as")
    return folder


def _memory() -> str | None:
    """A folder in memory with room for a server, where there is one: what is not synced need not meet a slow disk."""
    try:
        roomy = shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM_BYTES
    except OSError:
        return None
    return _SHARED_MEMORY if roomy and os.access(_SHARED_MEMORY, os.W_OK | os.X_OK) else None


def lock(folder: Path) -> IO[str]:
    """An open file that keeps the folder ours until it is closed or this process ends."""
    try:
        held = (folder / "lock").open("a+", encoding="ascii")
    except OSError as error:
        raise DataFolderUnusable(folder, f"cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held.seek(0)
        owner = held.read().strip()
        held.close()
        raise DataFolderInUse(
            f"data folder {folder} is in use by process {owner or '?'}; stop it or choose another with --data-dir"
        ) from None
    held.truncate(0)
    held.write(str(os.getpid()))
    held.flush()
    return held


def has_cluster(folder: Path) -> bool:
    """Does the folder hold a whole cluster of this server's major version? Another version is DataFolderUnusable."""
    try:
        version = (folder / "cluster" / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise DataFolderUnusable(folder, f"cannot be read: {error.strerror}") from None
    if version != MAJOR_VERSION:
        raise DataFolderUnusable(folder, f"was made by PostgreSQL {version}, this server is {MAJOR_VERSION}")
    return True


def pid_file(folder: Path) -> list[str]:
    """Lines of postmaster.pid; [] when there is none. The last of eight is `ready` once connections are accepted."""
    try:
        return (folder / "cluster" / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def runs_on(pid: int, folder: Path) -> bool:
    """Is this living process a Postgres on this folder? (A pid file may name a process that is long something else.)"""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"postgres" in words[0] and os.fsencode(folder / "cluster") in words
