"""Compiles a folder for Lambda: each module becomes one .pyc in its place. Run by the Python of the runtime, with `-X no_debug_ranges`.

`python3.13 -X no_debug_ranges infra/compile_code.py DIR /var/task`. Why so, and what it costs: docs/adr/0020. Standard library only.
"""

from __future__ import annotations

import ast
import importlib.util
import marshal
import sys
from pathlib import Path

UNCHECKED = (1).to_bytes(4, "little")
"""PEP 552: known by a hash of its source, which nobody compares."""


def compile_tree(folder: Path, at: str) -> None:
    """Every .py below the folder gives way to a .pyc without docstrings; tracebacks name the file as it would lie below `at`."""
    for source in sorted(folder.rglob("*.py")):
        text = source.read_bytes()
        tree = without_docstrings(ast.parse(text))
        code = compile(tree, f"{at}/{source.relative_to(folder).as_posix()}", "exec", dont_inherit=True, optimize=0)
        head = importlib.util.MAGIC_NUMBER + UNCHECKED + importlib.util.source_hash(text)
        source.with_suffix(".pyc").write_bytes(head + marshal.dumps(code))
        source.unlink()


def without_docstrings(tree: ast.Module) -> ast.Module:
    """The same program: lines stay where they are, and so do assertions, which -OO would take too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) is not None:
            told = node.body[0]
            empty = ast.copy_location(ast.Pass(), told)
            node.body[:1] = [] if len(node.body) > 1 else [empty]
    return tree


if __name__ == "__main__":
    compile_tree(Path(sys.argv[1]), sys.argv[2])
