"""An OS user for a server that refuses to run as root, and its way into the folders it needs.

Postgres exits at once under root. A container or a CI machine often has nobody else, so the server gets a user of its own
that owns its data folder and nothing else.
"""

import os
import pwd
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USER_NAME = "tidemill"

_ACL = "system.posix_acl_access"
_ACL_VERSION = 2
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NO_ID = 0xFFFFFFFF
_ENTER = 0o1


@dataclass(frozen=True)
class OsUser:
    """Who runs the server. `uid` is None when the caller may run it as it is (not root)."""

    uid: int | None = None
    gid: int | None = None

    def popen_arguments(self) -> dict[str, Any]:
        """Keyword arguments that make `subprocess` drop to this user."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give `path` (not what is in it) to this user."""
        if self.uid is not None:
            os.chown(path, self.uid, self.gid if self.gid is not None else -1)

    def let_in(self, path: Path) -> Path | None:
        """Make every folder on the way to `path` enterable (never listable) for this user.

        Returns the first folder that stays shut, None when the way is free. A folder that is shut to others gets an access
        list entry for this one user; its mode for everybody else does not change.
        """
        if self.uid is None:
            return None
        for folder in (*reversed(path.resolve().parents), path.resolve()):
            if folder.is_dir() and not self._may_enter(folder) and not self._grant_enter(folder):
                return folder
        return None

    def may_run(self, program: Path) -> bool:
        """May this user read and run the program?"""
        return self._test('[ -r "$1" ] && [ -x "$1" ]', program)

    def _may_enter(self, folder: Path) -> bool:
        mode = folder.stat()
        if mode.st_mode & 0o001 and self.uid != mode.st_uid and self.gid != mode.st_gid:
            return True
        return self._test('cd -- "$1"', folder)

    def _test(self, condition: str, path: Path) -> bool:
        """Ask the kernel as that user: modes alone do not tell (access lists, read-only mounts)."""
        command = ["/bin/sh", "-c", condition, "sh", str(path)]
        return subprocess.run(command, capture_output=True, check=False, cwd="/", **self.popen_arguments()).returncode == 0

    def _grant_enter(self, folder: Path) -> bool:
        try:
            os.setxattr(folder, _ACL, _with_entry(_read_acl(folder), self.uid or 0))
        except (OSError, AttributeError):  # no access lists on this file system, or no such call on this system
            return False
        return self._may_enter(folder)


def server_user() -> OsUser:
    """The user a server has to run as: the caller itself, or for root the user `tidemill`, made when it is missing.

    Raises LookupError with the way out when root has no way to make a user.
    """
    if os.geteuid() != 0:
        return OsUser()
    try:
        entry = pwd.getpwnam(USER_NAME)
    except KeyError:
        entry = _make_user()
    return OsUser(entry.pw_uid, entry.pw_gid)


def _make_user() -> pwd.struct_passwd:
    if shutil.which("useradd") is None:
        raise LookupError(f"Postgres does not run as root and there is no useradd to make the user {USER_NAME!r}; run as another user")
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/bin/false", USER_NAME]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return pwd.getpwnam(USER_NAME)  # also when another process was first
    except KeyError:
        raise LookupError(f"cannot make the user {USER_NAME!r}: {done.stderr.strip()}; run as another user") from None


def _read_acl(folder: Path) -> dict[tuple[int, int], int]:
    try:
        raw = os.getxattr(folder, _ACL)
    except OSError:
        mode = folder.stat().st_mode
        return {(_USER_OBJ, _NO_ID): mode >> 6 & 7, (_GROUP_OBJ, _NO_ID): mode >> 3 & 7, (_OTHER, _NO_ID): mode & 7}
    return {(tag, who): rights for tag, rights, who in struct.iter_unpack("<HHI", raw[4:])}


def _with_entry(acl: dict[tuple[int, int], int], uid: int) -> bytes:
    acl[_USER, uid] = acl.get((_USER, uid), 0) | _ENTER
    # The mask caps every named entry and the group; without one the group's own rights are the cap to keep.
    acl[_MASK, _NO_ID] = acl.get((_MASK, _NO_ID), acl[_GROUP_OBJ, _NO_ID]) | _ENTER
    return struct.pack("<I", _ACL_VERSION) + b"".join(struct.pack("<HHI", tag, rights, who) for (tag, who), rights in sorted(acl.items()))
