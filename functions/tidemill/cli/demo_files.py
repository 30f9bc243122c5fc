"""The input of `tidemill demo`: the standard library of the interpreter that runs, and some files that are odd or unreadable on purpose."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from pathlib import Path
from typing import NamedTuple


class Count(NamedTuple):
    """What is in a file."""

    bytes: int
    lines: int
    sha256: str


def count(path: str) -> Count:
    """Counts by reading the file; OSError if it cannot be read."""
    size, lines, digest, last = 0, 0, hashlib.sha256(), b""
    with Path(path).open("rb") as file:
        while chunk := file.read(1 << 20):
            size += len(chunk)
            lines += chunk.count(b"\n")
            digest.update(chunk)
            last = chunk[-1:]
    return Count(size, lines + (last not in (b"", b"\n")), digest.hexdigest())


def library() -> list[str]:
    """Every .py file of the standard library, without what was installed into it."""
    root = Path(sysconfig.get_paths()["stdlib"])
    return sorted(str(path) for path in root.rglob("*.py") if "site-packages" not in path.parts and path.is_file())


def oddities(folder: Path) -> list[str]:
    """Files that make trouble elsewhere: empty, binary, one endless line, strange names, a pipe's end, gone, a folder, a loop."""
    readable = {
        "empty.py": b"",
        "no_end.py": b"print('no newline at the end')",
        "binary.py": bytes(range(256)) * 64,
        "one_line.py": b"x" * 3_000_000,
        "dos.py": b"a\r\nb\r\n",
        "nul.py": b"\x00\n\x00",
        "with space and \u00fcml\u00e4uts.py": "gr\u00fc\u00dfe\n".encode(),
        "new\nline.py": b"1\n",
        "quote'\"\\.py": b"2\n",
    }
    for name, text in readable.items():
        (folder / name).write_bytes(text)
    (folder / "folder.py").mkdir()
    (folder / "loop.py").symlink_to(folder / "loop.py")
    (folder / "dangling.py").symlink_to(folder / "nowhere.py")
    (folder / "shut.py").write_text("3\n")
    (folder / "shut.py").chmod(0)  # unreadable, unless one is root
    names = [*readable, "folder.py", "loop.py", "dangling.py", "shut.py", "gone.py"]
    return [os.path.join(folder, name) for name in names]  # noqa: PTH118 - text, as the payload has it


def expected(paths: list[str]) -> dict[str, Count | None]:
    """A direct count of all; None for what cannot be read."""
    counts: dict[str, Count | None] = {}
    for path in paths:
        try:
            counts[path] = count(path)
        except OSError:
            counts[path] = None
    return counts
