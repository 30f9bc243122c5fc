"""Both stages of cdk.json as they were last looked at. `TIDEMILL_TEST_WRITE_SNAPSHOTS=1 scripts/test tests/infra` writes them anew."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from harness.stages import Templates

FOLDER = Path(__file__).with_name("snapshots")
# Hashes of code, dependencies, page and migrations: they change with every edit elsewhere.
HASHES = [
    (re.compile(r"\b[0-9a-f]{64}\b"), "<sha256>"), (re.compile(r"\b[0-9a-f]{16}\b"), "<hash>"),
    (re.compile(r"(script|style)-src ('[^']*' ?)+"), r"\1-src <csp>"),
    (re.compile(r"(FunctionsDependencies|RestApiDeployment)[0-9A-F]{8}[0-9a-f]*"), r"\1"),
]  # fmt: skip


def masked(template: dict[str, Any]) -> dict[str, Any]:
    """Without hashes, and without the routes, which test_serving compares with the table."""
    kept = {
        name: each for name, each in template["Resources"].items() if each["Type"] not in ("AWS::ApiGatewayV2::Route", "AWS::CDK::Metadata")
    }
    text = json.dumps({"Resources": kept, "Outputs": template.get("Outputs", {})}, sort_keys=True)
    for pattern, mask in HASHES:
        text = pattern.sub(mask, text)
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("stack", ["Stateful", "Service"])
@pytest.mark.parametrize("name", ["dev", "prod"])
def test_stage_is_what_it_was(templates: Templates, name: str, stack: str) -> None:
    path, now = FOLDER / f"{name}-{stack}.json", masked(templates(name)[stack])
    if os.environ.get("TIDEMILL_TEST_WRITE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    then = json.loads(path.read_text(encoding="utf-8"))
    assert set(now["Resources"]) == set(then["Resources"])
    changed = {
        key: (then["Resources"][key], now["Resources"][key]) for key in now["Resources"] if then["Resources"][key] != now["Resources"][key]
    }
    assert not changed
    assert now["Outputs"] == then["Outputs"]


def test_masks_hide_hashes_and_nothing_else() -> None:
    one, two = ({"Resources": {"A": {"Type": "T", "Key": digest * 64, "Name": "n"}}} for digest in "ab")
    assert masked(one) == masked(two)
    assert masked(one) != masked({"Resources": {"A": {"Type": "T", "Key": "a" * 64, "Name": "m"}}})
