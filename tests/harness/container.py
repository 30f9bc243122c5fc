"""The worker's image on a machine without Docker: built by buildah on a base that this machine's own Python makes, and run as ECS runs it.

buildah works in a folder of the test's own and reaches no registry; the base has the packages of runtime.lock already, at the pinned
versions, so that the Dockerfile's own `pip install` runs and finds everything there.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra import bundle

LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "site-packages", "dist-packages", "config-*"
)
SYSTEM = f"{os.environ['PATH']}:/usr/sbin:/sbin"
SHELL = ("/bin/sh", "/usr/bin/env")
# A mount namespace of its own: the image read-only, /tmp apart, and process 1 of its own processes.
_RUN = """
set -eu
chroot=$1 root=$2 user=$3 folder=$4; shift 4
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o mode=1777,size=64m tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom; do : > "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
exec "$chroot" --userspec="$user" --groups= "$root" /bin/sh -c 'cd "$0" && exec "$@"' "$folder" "$@"
"""
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]


def why_not() -> str | None:
    """The reason why no image can be built and run here; None where it can."""
    if shutil.which("buildah") is None:
        return "no buildah here (apt-get install buildah): the image is neither built nor run, only its Dockerfile is looked at"
    if os.geteuid() != 0 or subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True).returncode != 0:
        return "no rights here to make mount and process namespaces: the image is neither built nor run"
    return None


@dataclass(frozen=True)
class Image:
    """A built image. `config`: what it says of its process, as the Dockerfile wrote it. `root`: its files."""

    config: dict[str, Any]
    root: Path

    def run(self, command: Sequence[str], environment: dict[str, str], said: Path) -> Worker:
        """Its entry point with this command, as ECS starts it: the image's user, a read-only root, /tmp apart, no rights."""
        variables = dict(pair.split("=", 1) for pair in self.config["Env"])
        entry = [*self.config["Entrypoint"], *command]
        about = [self.config["User"], self.config["WorkingDir"]]
        outer = [*NAMESPACES, "sh", "-c", _RUN, "run", str(shutil.which("chroot", path=SYSTEM)), str(self.root), *about, *entry]
        with said.open("wb") as log:
            process = subprocess.Popen(outer, env={**variables, **environment}, stdout=log, stderr=subprocess.STDOUT)
        return Worker(process)


@dataclass(frozen=True)
class Worker:
    """A container that runs."""

    outer: subprocess.Popen[bytes]

    @property
    def pid(self) -> int | None:
        """Of its process 1, as this machine counts."""
        children = Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def file(self, path: str) -> Path:
        """A file as the container sees it."""
        return Path(f"/proc/{self.pid}/root{path}")

    def status(self) -> dict[str, str]:
        """What the kernel says of process 1."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def stop(self) -> None:
        """SIGTERM to process 1, as ECS begins its end."""
        assert self.pid is not None
        os.kill(self.pid, signal.SIGTERM)

    def ended(self, within_s: float = 120) -> int:
        """Its exit code."""
        return self.outer.wait(within_s)

    def close(self) -> None:
        """Ends it if it still runs."""
        if self.outer.poll() is None:
            self.outer.kill()  # and with it, by --kill-child, what it started
            self.outer.wait()


@contextmanager
def built(context: Path, folder: Path) -> Iterator[Image]:
    """The image of this build context; everything about it lies in the folder, and is gone afterwards."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    store = ["--root", str(folder / "store"), "--runroot", str(folder / "run"), "--storage-driver"]
    tried = subprocess.run(["buildah", *store, "overlay", "from", "scratch"], capture_output=True, check=False, env=environment)
    store += ["vfs" if tried.returncode else "overlay"]  # vfs copies every layer whole: slower, and it goes everywhere

    def buildah(*words: str) -> str:
        done = subprocess.run(["buildah", *store, *words], capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, f"{words}: {done.stdout[-2_000:]}{done.stderr[-3_000:]}"
        return done.stdout.strip()

    base = buildah("from", "scratch")
    make_base(Path(buildah("mount", base)))
    buildah("umount", base)
    buildah("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", base)
    buildah("commit", "--rm", "--quiet", base, "base")
    build = ["bud", "--isolation", "chroot", "--pull-never", "--build-arg", "BASE_IMAGE=localhost/base", "--tag", "worker", str(context)]
    buildah(*build)
    container = buildah("from", "--pull-never", "localhost/worker")
    config = json.loads(buildah("inspect", container))["OCIv1"]["config"]
    try:
        yield Image(config, Path(buildah("mount", container)))
    finally:
        buildah("umount", container)
        shutil.rmtree(folder, ignore_errors=True)


def make_base(root: Path) -> None:
    """An image's worth of this machine: the interpreter with its library, pip, the packages of runtime.lock, a shell, /tmp."""
    for name in ("tmp", "proc", "dev", "etc"):
        (root / name).mkdir()
    (root / "tmp").chmod(0o1777)
    shutil.copy("/etc/passwd", root / "etc" / "passwd")
    home, version = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    interpreter, library = home / "bin" / version, Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix}))
    shutil.copytree(library, _in(root, library), ignore=LEFT_OUT, symlinks=True)
    packages = _in(root, library) / "site-packages"
    packages.mkdir()
    for name in ["pip", *re.findall(r"^([a-z0-9-]+)==", bundle.LOCK.read_text(encoding="utf-8"), re.MULTILINE)]:
        _copy_distribution(name, packages)
    extensions = [path for path in _in(root, library).rglob("*.so") if path.is_file()]
    programs = [interpreter, *map(Path, SHELL)]
    for program in programs:
        _copy(root, program)
    for needed in {path for each in [*programs, *extensions] for path in _libraries(each) if not path.is_relative_to(root)}:
        _copy(root, needed)
    link = root / "usr" / "local" / "bin" / "python3"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(interpreter)


def _copy_distribution(name: str, packages: Path) -> None:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return  # one for other platforms: pip passes over it by its marker
    for file in distribution.files or []:
        source = Path(str(distribution.locate_file(file)))
        if ".." not in file.parts and "__pycache__" not in file.parts and source.is_file():
            to = packages / file
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to)


def _libraries(program: Path) -> list[Path]:
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    return [Path(found) for found in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", told, re.MULTILINE)]


def _copy(root: Path, path: Path) -> None:
    to = _in(root, path)
    if not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path.resolve(), to)


def _in(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")
