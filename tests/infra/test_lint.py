"""cfn-lint finds nothing in any template of the matrix."""

from pathlib import Path

import pytest
from cfnlint.api import lint_file

from harness.stages import STAGES

IGNORED = ["W3005"]
"""A dependency said twice: the CDK says what a reference says already."""


@pytest.mark.parametrize("name", list(STAGES))
def test_templates_are_valid_cloudformation(assemblies: Path, name: str) -> None:
    for path in sorted((assemblies / name).glob("*.template.json")):
        found = [match for match in lint_file(path) if match.rule.id not in IGNORED]
        assert not found, "\n".join(f"{match.rule.id} {'/'.join(map(str, match.path or []))}: {match.message}" for match in found)
