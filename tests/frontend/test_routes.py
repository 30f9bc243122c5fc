"""Every route that changes something is used by the page, which a browser test proves, or left off with its reason in docs/page.md."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

from frontend.conftest import ROOT
from tidemill.http.routes import READS, TABLE
from tidemill.http.system import DOCUMENT

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py") if path.name != Path(__file__).name)
LEFT_OFF = re.compile(r"^\| `((?:POST|PUT|PATCH|DELETE) [^`]+)` \| (.+) \|$", re.MULTILINE)


def changing() -> set[str]:
    """The document's routes that change something."""
    paths = json.loads(DOCUMENT.read_text(encoding="utf-8"))["paths"]
    reads = {f"{route.method} {route.path}" for route in TABLE if route.endpoint in READS}
    found = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    return {route for route in found if not route.startswith("GET ")} - reads


def used() -> set[str]:
    """What tests say, and are held to, that the page calls in them."""
    tests = [one for name in MODULES for one in vars(import_module(f"frontend.{name}")).values()]
    return {route for test in tests for route in getattr(test, "calls", ())}


def left_off() -> dict[str, str]:
    """Routes of docs/page.md with their reasons."""
    found = LEFT_OFF.findall((ROOT / "docs" / "page.md").read_text(encoding="utf-8"))
    assert len(found) == len(dict(found)), "each once"
    return dict(found)


def test_every_route_that_changes_something_is_used_by_the_page_or_left_off_with_a_reason() -> None:
    missing = changing() - used() - left_off().keys()
    assert not missing, f"{sorted(missing)}: give each its place on the page and a browser test with @calls, or its reason in docs/page.md"


def test_nothing_is_both_used_and_left_off_or_neither_there_nor_a_route() -> None:
    assert used() & left_off().keys() == set(), "the page uses it by now: take it out of docs/page.md"
    assert (used() | left_off().keys()) - changing() == set(), "there is no such route any more"
