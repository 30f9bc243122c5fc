"""`git pull` under a running instance: statements are read at the start, and whoever started it is told once."""

import asyncio
import logging
import sys
from pathlib import Path

import pytest

from tidemill.local import code_watch, watched
from tidemill.local.code_watch import CodeWatch
from tidemill.store import statements


def test_statements_are_all_read_at_once_and_never_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "FOLDER", tmp_path)
    (tmp_path / "area").mkdir()
    (tmp_path / "area" / "only_here.sql").write_text("-- what for\nselect 1\n")
    assert statements.load_all() == 1
    (tmp_path / "area" / "only_here.sql").write_text("select 2\n")
    assert statements.sql("area/only_here") == b"select 1"


def test_a_function_process_has_read_them_before_its_handler_loads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read: list[str] = []
    monkeypatch.setattr(watched, "load_all", lambda: read.append("statements"))
    monkeypatch.setattr(watched.runpy, "run_module", lambda name, **_: read.append(name))
    monkeypatch.setattr(watched.os, "dup2", lambda *_: None)
    monkeypatch.setattr(watched.threading.Thread, "start", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["watched", "awslambdaric", "x.handler"])
    watched.main()
    assert read == ["statements", "awslambdaric"]
    assert sys.argv == ["awslambdaric", "x.handler"]


@pytest.mark.parametrize("change", ["another text", "a new file", "a file that is gone"])
def test_a_change_of_the_code_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    monkeypatch.setattr(code_watch, "LOOK_S", 0.01)
    (tmp_path / "a.sql").write_text("1")
    (tmp_path / "notes.txt").write_text("1")

    async def run() -> None:
        looked = asyncio.Event()
        watch = CodeWatch(tmp_path, on_terminal=True)
        changed = watch._changed

        async def told(before: dict[Path, int]) -> str:
            looked.set()
            return await changed(before)

        monkeypatch.setattr(watch, "_changed", told)
        task = asyncio.create_task(watch.run())
        (tmp_path / "notes.txt").write_text("2")
        async with asyncio.timeout(60):
            await looked.wait()
            assert caplog.messages == []
            if change == "a file that is gone":
                (tmp_path / "a.sql").unlink()
            else:
                (tmp_path / ("a.sql" if change == "another text" else "b.py")).write_text("two")
            while not caplog.messages:  # noqa: ASYNC110 - a thread looks
                await asyncio.sleep(0.01)
            (tmp_path / "c.py").write_text("three")
        task.cancel()
        await asyncio.wait({task})

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    (told,) = caplog.messages
    assert told.startswith(f"the code has changed since this instance started ({'b.py' if change == 'a new file' else 'a.sql'})")
    assert capsys.readouterr().err == f"tidemill: {told}\n"
