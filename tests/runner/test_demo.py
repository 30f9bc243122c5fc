"""The demo proves what it says, for both sources, and its proof can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.working import ROOT
from tidemill.cli.demo_files import count, expected, library, oddities
from tidemill.cli.demo_proof import Proof, prove, prove_schedule, prove_sum
from tidemill.store.demo import Became

FILES = 150


@pytest.mark.timeout(300)
@pytest.mark.parametrize("source", ["postgres", "http"])
def test_the_demo_proves_its_totals(source: str) -> None:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("TIDEMILL_")}
    command = [sys.executable, "-P", "-m", "tidemill.cli", "demo", "--source", source, "--most", str(FILES), "--json", "--pause-ms", "20"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env={**environment, "PYTHONPATH": str(ROOT / "functions")}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    proof = json.loads(done.stdout)
    assert proof["proved"] is True
    assert proof["jobs"] == FILES + 14
    assert proof["completed"] + proof["unreadable"] == proof["jobs"]
    assert proof["unreadable"] >= 4
    assert proof["summed_up"] == proof["jobs"]
    assert proof["fired"] >= 1


def test_the_library_is_well_over_a_thousand_files_or_what_this_interpreter_has() -> None:
    files = library()
    assert len(files) > 500
    assert all(name.endswith(".py") for name in files)


def test_oddities_are_counted_or_unreadable_as_meant(tmp_path: Path) -> None:
    counts = {Path(name).name: found for name, found in expected(oddities(tmp_path)).items()}
    lines = {name: found.lines for name, found in counts.items() if found is not None}
    assert {name: lines[name] for name in ("empty.py", "no_end.py", "one_line.py", "dos.py", "nul.py")} == {
        "empty.py": 0, "no_end.py": 1, "one_line.py": 1, "dos.py": 2, "nul.py": 2,
    }  # fmt: skip
    assert {name for name, found in counts.items() if found is None} >= {"folder.py", "loop.py", "dangling.py", "gone.py"}


def became(name: str, **changes: Any) -> Became:
    result = count(name)._asdict()
    return Became(name, "completed", 1, 1, 0, 0, result, None, 0.1, None, None)._replace(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "running"}, {"completions": 2}, {"acked": 0}, {"failures": 1}, {"path": "another"},
        {"result": {"bytes": 1, "lines": 1, "sha256": "0"}},
    ],
    ids=str,
)  # fmt: skip
def test_the_proof_fails_when_something_is_wrong(changes: dict[str, Any]) -> None:
    path = __file__
    assert prove([became(path)], expected([path])).faults == []
    assert prove([became(path, **changes)], expected([path])).faults


def test_the_proof_fails_when_a_job_is_missing_or_there_twice() -> None:
    path = __file__
    assert prove([], expected([path])).faults
    assert prove([became(path), became(path)], expected([path])).faults


@pytest.mark.parametrize(
    "changes", [{}, {"result": {"jobs": 1, "bytes": 2, "lines": 4}}, {"status": "running"}, {"completions": 2}], ids=str
)
def test_the_proof_fails_when_the_callback_sums_up_wrongly_or_twice(changes: dict[str, Any]) -> None:
    right = became(__file__, result={"jobs": 1, "bytes": 2, "lines": 3})
    sums = [right._replace(**changes)] if changes else [right, right]
    proof = Proof(jobs=1, bytes=2, lines=3)
    prove_sum(proof, sums)
    assert proof.faults
    good = Proof(jobs=1, bytes=2, lines=3)
    prove_sum(good, [right])
    assert (good.faults, good.summed_up) == ([], 1)


def test_the_proof_fails_when_the_schedule_did_not_fire_or_fired_an_instant_twice() -> None:
    once = became(__file__)._replace(path="2030-01-01T00:00:00Z")
    waiting = once._replace(path="2030-01-01T00:00:01Z", status="queued", completions=0, acked=0)
    for occurrences in ([], [waiting], [once, once], [once._replace(completions=2)]):
        proof = Proof()
        prove_schedule(proof, occurrences)
        assert proof.faults, occurrences
    good = Proof()
    prove_schedule(good, [once, waiting])
    assert (good.faults, good.fired) == ([], 1)
