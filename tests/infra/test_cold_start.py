"""What a cold start costs from the bundle itself, with its .pyc, on the Python of the runtime where this machine has one.

Processor time, in fresh processes, beside a yardstick taken in turns with the handlers: a machine that is busy is slow for both.
"""

import subprocess
from pathlib import Path

import pytest

from infra import bundle

BUDGET_MS = {"enqueue": 400, "claims": 400, "admin": 400, "scheduler": 250, "authorizer": 250}
YARDSTICK, YARDSTICK_MS = "psycopg", 161.0
"""What this import takes on the machine that the budgets were set on, at rest."""
NOISE = 1.25
"""By so much the least of a few runs may differ from that of others on a machine with ten times as many processes as cores."""
RUNS = 3
PROGRAM = """
import sys, time
sys.path = [{code!r}, {layer!r}, *(path for path in sys.path if "site-packages" not in path)]
began = time.process_time()
import {module}
print((time.process_time() - began) * 1000)
"""


@pytest.fixture(scope="module")
def taken_ms() -> dict[str, float]:
    """The least of several turns of each: what the import needs; the rest is what the neighbours took from it."""
    python, version = bundle.test_python()
    code, layer = bundle.code(), bundle.layer(bundle.host(), version) / "python"
    found: dict[str, float] = {}
    for _ in range(RUNS):
        for module in (YARDSTICK, *(f"{name}.handler" for name in BUDGET_MS)):
            found[module] = min(found.get(module, 1e9), import_ms(python, code, layer, module))
    return found


def import_ms(python: Path, code: Path, layer: Path, module: str) -> float:
    program = PROGRAM.format(code=str(code), layer=str(layer), module=module)
    done = subprocess.run([str(python), "-I", "-S", "-B", "-c", program], capture_output=True, text=True, check=True, env={})
    return float(done.stdout)


@pytest.mark.parametrize("name", BUDGET_MS)
def test_import_of_a_handler_from_the_bundle_is_within_its_budget(
    name: str, taken_ms: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    slowness = taken_ms[YARDSTICK] / YARDSTICK_MS
    took = taken_ms[f"{name}.handler"] / slowness
    with capsys.disabled():
        print(f"\n{name} from the bundle: {took:.0f} ms (budget {BUDGET_MS[name]}; this machine is {slowness:.2f} x as slow)")
    assert took <= BUDGET_MS[name] * NOISE
