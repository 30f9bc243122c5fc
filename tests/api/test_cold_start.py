"""What a cold start must not load (tests/infra/test_cold_start.py has how long it takes)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FUNCTIONS = Path(__file__).resolve().parents[2] / "functions"


@pytest.mark.parametrize("name", ["scheduler", "authorizer"])
def test_scheduler_and_authorizer_load_neither_pydantic_nor_a_router(name: str) -> None:
    program = f"import sys, {name}.handler; print(*sys.modules)"
    environment = {"PYTHONPATH": str(FUNCTIONS), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert {"pydantic", "aws_lambda_powertools.event_handler", "boto3", "aws_xray_sdk"}.isdisjoint(done.stdout.split())
