"""The wheel cut from this tree, in an environment that has nothing else of it: it migrates a database and runs the whole product."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import psycopg
import pytest

from harness.dev import Dev, until
from tidemill.local.runtime.functions import functions
from tidemill.store.migration_files import default_folder, read_folder

ROOT = Path(__file__).resolve().parents[2]
CUT_FROM = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "functions", "migrations")
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the backend itself, without a network, from a copy of the tree (a build leaves things behind)."""
    setuptools = pytest.importorskip("setuptools", reason="no setuptools in this environment to build a wheel with")
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip(f"setuptools {setuptools.__version__} is older than the 77 that pyproject.toml asks for")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("out")
    for name in CUT_FROM:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(path, source / name)
    page = source / "frontend" / "dist" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<!doctype html><title>the built page</title>", encoding="utf-8")
    built = subprocess.run([sys.executable, "-c", BUILD, str(out)], cwd=source, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3_000:]
    (made,) = out.glob("tidemill-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel and its dependencies, the latter lent by the one that runs the tests."""
    folder = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    # A path in a .pth file is only searched; the .pth files that lie there, which name this checkout, are not read.
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin" / "python"


def run(python: Path, *arguments: str, cwd: Path) -> str:
    """What a program of the environment prints; it sees nothing of ours."""
    done = subprocess.run([str(python), *arguments], cwd=cwd, env=bare(), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def bare() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("TIDEMILL_", "PYTHON"))}


def test_the_wheel_has_what_the_package_needs_and_no_test(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    migrations = {f"tidemill/bundled/migrations/{path.name}" for path in (ROOT / "migrations").glob("*.sql")}
    handlers = {f"tidemill/bundled/functions/{name}/handler.py" for name in functions()}
    data = {
        f"tidemill/{path.relative_to(ROOT / 'functions' / 'tidemill')}"
        for path in (ROOT / "functions" / "tidemill").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert names >= migrations | handlers | data | {"tidemill/bundled/frontend/dist/index.html"}
    assert {name.split("/")[0].split("-")[0] for name in names} == {"tidemill"}, "nothing else lands beside other people's packages"


def test_an_installed_tidemill_migrates_an_empty_database(installed: Path, empty_database: str, tmp_path: Path) -> None:
    where = run(installed, "-c", "import tidemill; print(tidemill.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parents[1])
    assert "Apply what is missing" in run(installed, "-m", "tidemill.cli", "migrate", "--help", cwd=tmp_path)
    wanted = read_folder(default_folder())
    said = run(installed, "-m", "tidemill.cli", "migrate", "--dsn", empty_database, cwd=tmp_path)
    assert said.splitlines() == [*(f"applied {migration.name}" for migration in wanted), f"version {wanted[-1].version}"]
    with psycopg.connect(empty_database) as conn:
        rows = conn.execute("select version, checksum from tidemill.schema_migrations order by version").fetchall()
    assert rows == [(migration.version, migration.checksum) for migration in wanted]
    assert "drift" in run(installed, "-m", "tidemill.cli", "doctor", "--dsn", empty_database, cwd=tmp_path)


def test_an_installed_tidemill_runs_the_whole_product(installed: Path, tmp_path: Path) -> None:
    command = [str(installed), "-m", "tidemill.cli", "dev", "--json"]
    with Dev("--ephemeral", "--port", "0", command=command, env=bare(), cwd=tmp_path) as dev, dev.ready().client() as api:
        assert "the built page" in api.get("/").text
        assert api.get("/v1/openapi.json").json()["openapi"].startswith("3.1")
        job_id = api.post("/v1/jobs", json={"job_type": "demo.hello", "payload": {"name": "Ada"}}).json()["job"]["id"]
        until(lambda: api.get(f"/v1/jobs/{job_id}").json()["state"] == "completed", within_s=60, what="the demo worker completes the job")
        assert dev.end() == 0
    assert list(tmp_path.iterdir()) == []
