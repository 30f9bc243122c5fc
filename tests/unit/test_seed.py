"""What is loaded before commands are forked is there for whoever runs only the tests that need no other group."""

import re
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from harness.seed import LOADED

LOCK = Path(__file__).parents[2] / "requirements" / "dev.lock"


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("module", sorted({name.partition(".")[0] for name in LOADED} - {"encodings"}))
def test_what_commands_find_loaded_is_of_the_first_group(module: str) -> None:
    locked = {plain(found[1]) for found in re.finditer(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==", LOCK.read_text("utf-8"), re.MULTILINE)}
    assert {plain(name) for name in packages_distributions()[module]} & locked
