"""What a cold start costs: the import of each handler over an empty interpreter, with .pyc, in fresh processes."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

FUNCTIONS = Path(__file__).resolve().parents[2] / "functions"
BUDGET_MS = {"enqueue": 400, "claims": 400, "admin": 400, "scheduler": 300, "authorizer": 250}
RUNS = 5
"""How often at most. The least of several is what an import needs; the rest is what its neighbours took from it."""

YARDSTICK, YARDSTICK_MS = "psycopg", 161.0
"""What this import takes on the machine that the budgets were set on, at rest. Where it takes longer, so may the handlers."""

# Processor time, which the neighbours on a shared machine disturb less than the clock on the wall; an import waits for nothing else.
PROGRAM = "import time; began = time.process_time(); import {0}; print((time.process_time() - began) * 1000)"


def import_ms(module: str) -> float:
    environment = {"PYTHONPATH": str(FUNCTIONS), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(module)], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.parametrize("name", BUDGET_MS)
def test_import_of_a_handler_is_within_its_budget(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    took, yardstick = import_ms(f"{name}.handler"), 0.0  # the first one writes the .pyc, too
    for _ in range(RUNS):
        if took <= BUDGET_MS[name] * max(1.0, yardstick / YARDSTICK_MS):
            break
        took = min(took, import_ms(f"{name}.handler"))
        yardstick = min(yardstick or math.inf, import_ms(YARDSTICK))
    slowness = max(1.0, yardstick / YARDSTICK_MS)
    with capsys.disabled():
        print(f"\nimport of {name}.handler: {took:.0f} ms on a machine {slowness:.2f} x as slow (budget {BUDGET_MS[name]})")
    assert took <= BUDGET_MS[name] * slowness


@pytest.mark.parametrize("name", ["scheduler", "authorizer"])
def test_scheduler_and_authorizer_load_neither_pydantic_nor_a_router(name: str) -> None:
    program = f"import sys, {name}.handler; print(*sys.modules)"
    environment = {"PYTHONPATH": str(FUNCTIONS), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert {"pydantic", "aws_lambda_powertools.event_handler", "boto3", "aws_xray_sdk"}.isdisjoint(done.stdout.split())
