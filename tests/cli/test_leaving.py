"""A worker that has stopped ends with 0, whatever a handler or a reader has done to its standard streams."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tidemill

LEAVE = """
import os, sys
from tidemill.cli.worker import _leave
from tidemill.runner.log import Log
{harm}
Log("info").info("stopped")
_leave("stopped")
"""


@pytest.mark.parametrize(
    "harm",
    ["sys.stdout = None", "sys.stderr = None", "sys.stdout.close()", "sys.stderr.close()", "print('unread'); os.close(1)"],
)
def test_a_worker_leaves_with_0_though_its_streams_are_gone(harm: str) -> None:
    root = str(Path(tidemill.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", LEAVE.format(harm=harm)], env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
