"""The page is built when its sources are newer, and a build that fails keeps nobody from anything."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tidemill.local import page_builder
from tidemill.local.page_builder import PageBuilder

SCRIPT = """#!/bin/sh
cd "$(dirname "$0")/.." && echo run >> runs && {0}
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one source and a build of a line."""
    monkeypatch.setattr(page_builder, "LOOK_S", 0.01)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "frontend" / "src").mkdir(parents=True)
    (tmp_path / "frontend" / "src" / "main.tsx").write_text("1")
    building(tmp_path, "touch built")
    return tmp_path


def building(checkout: Path, command: str) -> None:
    script = checkout / "scripts" / "build"
    script.write_text(SCRIPT.format(command))
    script.chmod(0o755)


def runs(checkout: Path) -> int:
    return len((checkout / "runs").read_text().splitlines()) if (checkout / "runs").exists() else 0


def watched(checkout: Path, then: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        task = asyncio.create_task(PageBuilder(checkout, checkout / "built").run())
        try:
            async with asyncio.timeout(20):
                await then()
        finally:
            task.cancel()
            await asyncio.wait({task})

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - another process changes what is looked at
        await asyncio.sleep(0.01)


def test_page_is_built_once_and_again_when_a_source_changes(checkout: Path) -> None:
    async def then() -> None:
        await until(lambda: (checkout / "built").exists())
        for _turn in range(20):
            await asyncio.sleep(0.01)
        assert runs(checkout) == 1
        later = (checkout / "built").stat().st_mtime + 5
        os.utime(checkout / "frontend" / "src" / "main.tsx", (later, later))
        await until(lambda: runs(checkout) == 2)

    watched(checkout, then)


def test_build_that_fails_says_why_and_is_not_tried_again_for_the_same_sources(checkout: Path, caplog: pytest.LogCaptureFixture) -> None:
    building(checkout, "{ echo 'no such module' >&2; exit 1; }")

    async def then() -> None:
        await until(lambda: "no such module" in caplog.text)
        for _turn in range(20):
            await asyncio.sleep(0.01)
        assert runs(checkout) == 1

    watched(checkout, then)


def test_build_under_way_ends_with_the_instance(checkout: Path) -> None:
    building(checkout, "echo $$ > pid && exec tail -f /dev/null")

    async def then() -> None:
        await until(lambda: (checkout / "pid").exists() and (checkout / "pid").read_text().strip() != "")

    watched(checkout, then)
    with pytest.raises(ProcessLookupError):
        os.kill(int((checkout / "pid").read_text()), signal.SIG_DFL)


def test_package_without_a_checkout_has_nothing_to_build(tmp_path: Path) -> None:
    async def then() -> None:
        for _turn in range(20):
            await asyncio.sleep(0.01)

    watched(tmp_path, then)
    assert list(tmp_path.iterdir()) == []
