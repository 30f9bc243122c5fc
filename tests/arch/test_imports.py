"""What a module may import, beyond what import-linter sees: lazily, at load time, and in the handlers' folders."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FUNCTIONS = Path(__file__).resolve().parents[2] / "functions"
PACKAGE = FUNCTIONS / "tidemill"
DEPLOYABLES = {folder.name for folder in FUNCTIONS.iterdir() if folder.is_dir() and folder.name not in ("tidemill", "__pycache__")}
BANNED_IN_DOMAIN = {"os", "time", "random", "logging", "socket", "secrets", "subprocess", "threading", "asyncio"}
HEAVY = ["psycopg", "boto3", "botocore", "aws_xray_sdk", "croniter"]


def modules(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def imported(path: Path) -> set[str]:
    """Top-level names of all that the file imports, anywhere in it, with the line."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names


def loaded_by(module: str) -> set[str]:
    """What a fresh interpreter has loaded after importing this module."""
    program = f"import json, sys, importlib; importlib.import_module({module!r}); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(FUNCTIONS), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_domain_imports_neither_the_outside_world_nor_a_vendor() -> None:
    for path in modules(PACKAGE / "domain"):
        names = imported(path) - {"tidemill"}
        may_parse_cron = path.is_relative_to(PACKAGE / "domain" / "cron")
        vendors = names - sys.stdlib_module_names - ({"croniter"} if may_parse_cron else set())
        assert not vendors | (names & BANNED_IN_DOMAIN), path.relative_to(PACKAGE)


def test_package_imports_no_handler() -> None:
    # `runner` here is the deployable's folder; the package's own is called tidemill.runner.
    assert [str(path.relative_to(PACKAGE)) for path in modules(PACKAGE) if imported(path) & DEPLOYABLES] == []


@pytest.mark.parametrize("name", sorted(DEPLOYABLES))
def test_deployables_do_not_import_each_other(name: str) -> None:
    for path in modules(FUNCTIONS / name):
        assert not imported(path) & (DEPLOYABLES - {name}), path


@pytest.mark.parametrize("name", ["tidemill", "tidemill.domain", "tidemill.client", "tidemill.runner", "tidemill.config"])
def test_cheap_modules_stay_cheap_to_import(name: str) -> None:
    assert loaded_by(name).isdisjoint(HEAVY)


@pytest.mark.parametrize("path", sorted(FUNCTIONS.glob("*/handler.py")), ids=lambda path: path.parent.name)
def test_handler_import_loads_no_aws_sdk_and_no_tracer(path: Path) -> None:
    """Where botocore is installed, as on Lambda, Powertools imports the bare package (1 ms) and nothing in it."""
    loaded = loaded_by(f"{path.parent.name}.handler")
    assert loaded.isdisjoint({"boto3", "aws_xray_sdk", "croniter"})
    assert not {name for name in loaded if name.startswith("botocore.")}
