"""One synthesis for the whole run: `templates(name)` are the parsed templates of a stage in STAGES, `assembly(name)` its folder."""

import fcntl
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.stages import ROOT, STAGES, Templates
from infra import bundle

SYNTHESIS_SECS = 900
"""40 s on two idle cores; a machine that is busy with other things takes its time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "assemblies" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(SYNTHESIS_SECS))


@pytest.fixture(scope="session")
def assemblies() -> Path:
    """The folder of all stages' assemblies, made once for what the sources are now, by whichever process comes first."""
    sources = [
        ROOT / name for name in ("infra", "functions", "migrations", "cdk.json", "docs/examples/handlers", "requirements/runtime.lock")
    ]
    stages = json.dumps(STAGES)
    folder = ROOT / ".tidemill" / f"synth-{bundle.digest(sources, stages, bundle.page() or '')}"
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            for old in ROOT.glob(".tidemill/synth-*/"):
                shutil.rmtree(old, ignore_errors=True)
            command = [sys.executable, "-O", str(Path(__file__).with_name("synthesise.py")), str(folder), stages]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
            assert done.returncode == 0, (done.stdout + done.stderr)[-3_000:]
            (folder / "done").write_text(done.stdout)
    return folder


@pytest.fixture(scope="session")
def templates(assemblies: Path) -> Templates:
    """Of a stage: `{"Stateful": template, "Service": template}`."""

    @cache
    def read(name: str) -> dict[str, dict[str, Any]]:
        found = (assemblies / name).glob("*.template.json")
        return {path.name.split(".")[0].rpartition("-")[2]: json.loads(path.read_text()) for path in found}

    return read
