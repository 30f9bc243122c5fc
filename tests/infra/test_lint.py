"""cfn-lint finds nothing in any template of the matrix."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.stages import STAGES

if TYPE_CHECKING:  # it takes two seconds to load, and whoever collects the tests would pay
    from cfnlint.match import Match
    from cfnlint.rules import Rules

IGNORED = ["W3005"]
"""A dependency said twice: the CDK says what a reference says already."""


@pytest.mark.parametrize("name", list(STAGES))
def test_templates_are_valid_cloudformation(assemblies: Path, name: str) -> None:
    paths = sorted((assemblies / name).glob("*.template.json"))
    assert paths
    for path in paths:
        found = [match for match in matches(path) if match.rule.id not in IGNORED]
        assert not found, "\n".join(f"{match.rule.id} {'/'.join(map(str, match.path or []))}: {match.message}" for match in found)


def test_a_fault_in_a_template_is_found(tmp_path: Path) -> None:
    path = tmp_path / "wrong.template.json"
    path.write_text('{"Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"Colour": "blue"}}}}')
    assert [match.rule.id for match in matches(path)] == ["E3002"]


def matches(path: Path) -> Iterator[Match]:
    """As cfnlint's `lint_file` does it, but the rules are made once: that is a second and a half a time."""
    from cfnlint.config import ConfigMixIn
    from cfnlint.runner.template import run_template_by_file_path

    return run_template_by_file_path(str(path), ConfigMixIn(["--template", str(path)]), rules(), False)


@cache
def rules() -> Rules:
    from cfnlint.config import ConfigMixIn
    from cfnlint.runner import Runner

    return Runner(ConfigMixIn([])).rules
