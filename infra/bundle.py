"""What goes into which asset, without Docker: one code asset for all functions, one dependency layer, the worker image's folder.

Folders are made below .tidemill/bundle and known by a hash of what they are made from; what is there already is taken.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from infra.settings import SettingsInvalid
from tidemill.store.statements import sql

ROOT: Final = Path(__file__).resolve().parents[1]
MADE: Final = ROOT / ".tidemill" / "bundle"
LOCK: Final = ROOT / "requirements" / "runtime.lock"
RUNTIME: Final = "3.13"
ARM: Final = "aarch64-manylinux_2_28"
NOT_IN_CODE: Final = (
    "runner", "tidemill/local", "tidemill/cli", "tidemill/testing", "tidemill/runner", "tidemill/client", "tidemill/credentials.py",
    "tidemill/engine/duties.py", "tidemill/http/document.py", "tidemill/store/sleepers.py", "tidemill/py.typed",
    "tidemill/observe/traces.py", "tidemill/observe/correlation.py",
    *(f"tidemill/store/{each}" for each in ("demo.py", "sql/demo", "doctor.py", "drift.py", "sql/doctor")),
)  # fmt: skip
"""What no handler imports: a test follows their imports."""
NOT_IN_LAYER: Final = frozenset({
    "typer", "rich", "pygments", "markdown-it-py", "mdurl", "shellingham", "annotated-doc", "click", "httpx", "httpcore", "h11", "anyio",
    "certifi", "idna", "colorama", "pytz",
})  # fmt: skip
"""Packages that only the CLI, the client and the runner import."""
RUNTIME_CLIENT: Final = frozenset({"awslambdaric", "simplejson", "snapshot-restore-py"})
USELESS: Final = ("bin", ".lock", "cffi", "pycparser*", "croniter/tests", "pydantic/v1", "**/__pycache__")
"""Of what was installed: parts that only compilers, tests and others' migrations import."""
COMPILER: Final = Path(__file__).with_name("compile_code.py")
STATEMENTS: Final = "tidemill/store/sql"
TASK_ROOT: Final = "/var/task"
"""Where Lambda unzips the code."""
_NOT_SOURCE: Final = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")
_NOT_THE_TEAMS: Final = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", ".*")
"""Hidden files too: an .env or a .git is nobody's business who may pull the image."""


PAGE: Final = ROOT / "frontend" / "dist" / "index.html"
NOT_BUILT: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>tidemill</title><p>The page was not built before this deploy.</p></html>\n"
)


def page() -> str | None:
    """The built page; None if it is not built."""
    return PAGE.read_text(encoding="utf-8") if PAGE.is_file() else None


def text_digest(text: str) -> str:
    """A short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def code() -> Path:
    """The functions and the package as Lambda unzips them, with migrations and page; where a Python of the runtime's version is, compiled
    without the sources."""
    python, html = python_of_runtime(), page() or NOT_BUILT
    sources = [ROOT / "functions", ROOT / "migrations", COMPILER, Path(__file__)]
    folder = MADE / f"code-{digest(sources, html, str(python))}"
    if not folder.is_dir():
        part = _fresh(folder)
        shutil.copytree(ROOT / "functions", part, ignore=_NOT_SOURCE, dirs_exist_ok=True)
        for name in NOT_IN_CODE:
            _remove(part / name)
        for path in (part / STATEMENTS).rglob("*.sql"):
            path.write_bytes(sql(path.relative_to(part / STATEMENTS).with_suffix("").as_posix()))  # as it would be read from there
        shutil.copytree(ROOT / "migrations", part / "migrations", ignore=shutil.ignore_patterns("schema.sql"))
        (part / "page").mkdir()
        (part / "page" / "index.html").write_text(html, encoding="utf-8")
        if python is None:
            print(
                f"tidemill: no Python {RUNTIME} here, so imports take twice as long in Lambda; TIDEMILL_PYTHON names one", file=sys.stderr
            )
        else:
            compiler = [str(python), "-X", "no_debug_ranges", str(COMPILER), str(part), TASK_ROOT]
            subprocess.run(compiler, check=True, capture_output=True)
        _done(part, folder)
    return folder


def layer(target: str = ARM, version: str = RUNTIME) -> Path:
    """The dependencies of the lock file for that platform, in `python/`. Needs the network the first time."""
    known = digest([LOCK], ",".join([*sorted(NOT_IN_LAYER), *USELESS]), str(python_of_runtime()))
    folder = MADE / f"layer-{target}-{version.replace('.', '')}-{known}"
    if not folder.is_dir():
        part = _fresh(folder)
        _install(_lock(LOCK, without=NOT_IN_LAYER), part / "python", target, version)
        for useless in [path for pattern in USELESS for path in (part / "python").glob(pattern)]:
            _remove(useless)
        compiled(part)
        _done(part, folder)
    return folder


def runtime(version: str) -> Path:
    """The runtime client that Lambda brings by itself, for this machine and that Python: tests run the bundle under it."""
    lock = ROOT / "requirements" / "dev.lock"
    wanted = _lock(lock, only=RUNTIME_CLIENT)
    folder = MADE / f"runtime-{host()}-{version.replace('.', '')}-{text_digest(wanted)}"
    if not folder.is_dir():
        part = _fresh(folder)
        _install(wanted, part / "python", host(), version)
        _done(part, folder)
    return folder


def worker(handlers: str) -> Path:
    """The build context of the worker image: functions/runner/Dockerfile, the package, the lock file, the team's folder."""
    team = ROOT / handlers
    if not team.is_dir() or not any(team.glob("*.py")):
        raise SettingsInvalid(f"handlers={handlers}: no such folder with Python modules; make it, or name yours in cdk.json")
    sources = [ROOT / "functions" / "tidemill", ROOT / "functions" / "runner", LOCK, team]
    folder = MADE / f"worker-{digest(sources, handlers)}"
    if not folder.is_dir():
        part = _fresh(folder)
        for name in ("tidemill", "runner"):
            shutil.copytree(ROOT / "functions" / name, part / "functions" / name, ignore=_NOT_SOURCE)
        shutil.copy(ROOT / "functions" / "runner" / "Dockerfile", part / "Dockerfile")
        shutil.copy(LOCK, part / "runtime.lock")
        shutil.copytree(team, part / "handlers", ignore=_NOT_THE_TEAMS)
        if not (part / "handlers" / "requirements.txt").exists():
            (part / "handlers" / "requirements.txt").write_text("", encoding="utf-8")
        _done(part, folder)
    return folder


def digest(paths: Iterable[Path], *more: str) -> str:
    """Of the files' names and contents, wherever the repository lies and whenever they were written."""
    found = hashlib.sha256("\0".join(more).encode())
    for root in paths:
        files = sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else [root]
        for path in files:
            if "__pycache__" not in path.parts and path.suffix != ".pyc" and path.parent.suffix != ".egg-info":
                found.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def host() -> str:
    """The platform of this machine as uv calls it."""
    return f"{'aarch64' if platform.machine() in ('aarch64', 'arm64') else 'x86_64'}-manylinux_2_28"


def python_of_runtime() -> Path | None:
    """A Python of the version that Lambda runs, if this machine has one. TIDEMILL_PYTHON names one that is nowhere to be found."""
    name = f"python{RUNTIME}"
    likely = [os.environ.get("TIDEMILL_PYTHON"), sys.executable, shutil.which(name), f"/usr/bin/{name}", f"/usr/local/bin/{name}"]
    likely += map(str, sorted(Path.home().glob(f".pyenv/versions/{RUNTIME}*/bin/{name}")))
    for candidate in likely:
        if candidate and Path(candidate).exists():
            said = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False).stdout
            if said.startswith(f"Python {RUNTIME}."):
                return Path(candidate)
    return None


def test_python() -> tuple[Path, str]:
    """An interpreter to try the bundle on, and its version: the runtime's if there is one, else this one."""
    found = python_of_runtime()
    return (found, RUNTIME) if found else (Path(sys.executable), f"{sys.version_info.major}.{sys.version_info.minor}")


def compiled(folder: Path) -> bool:
    """Adds .pyc that are never checked against the source's time, which a zip loses; False where no such Python is here."""
    python = python_of_runtime()
    if python is None:
        return False
    command = [str(python), "-m", "compileall", "-q", "-j", "2", "--invalidation-mode", "unchecked-hash", "-s", str(folder), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return True


def _lock(path: Path, *, only: frozenset[str] | None = None, without: frozenset[str] = frozenset()) -> str:
    """Of a lock file, the packages with these names, or all without those."""
    blocks = re.split(r"^(?=[a-z0-9])", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    names = {block: block.partition("==")[0] for block in blocks}
    return "".join(block for block, name in names.items() if name not in without and (only is None or name in only))


def _install(wanted: str, target: Path, platform_: str, version: str) -> None:
    """What these lines of a lock file name, as wheels for that platform and Python."""
    target.mkdir()
    lock = target.with_name("requirements.txt")
    lock.write_text(wanted, encoding="utf-8")
    command = [
        str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:",
        "--python-platform", platform_, "--python-version", version, "--target", str(target), "-r", str(lock),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lock.unlink()
    if done.returncode != 0:
        told = " ".join(done.stderr.split())[:300]
        raise SettingsInvalid(f"what the lock file names could not be installed: {told}; it needs the network once")


def _fresh(folder: Path) -> Path:
    part = folder.with_name(f"{folder.name}.part-{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    return part


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _done(part: Path, folder: Path) -> None:
    try:
        part.rename(folder)
    except OSError:  # another one was faster
        shutil.rmtree(part, ignore_errors=True)


if __name__ == "__main__":
    # The second layer and the runtime are this machine's, for the tests.
    for made in (code(), layer(), layer(host(), test_python()[1]), runtime(test_python()[1])):
        print(made.relative_to(ROOT))
