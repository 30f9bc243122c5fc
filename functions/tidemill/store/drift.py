"""How a live schema differs from `migrations/schema.sql`: indexes made by hand, columns that were dropped, functions that were replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_NAMES: Final = {
    "table": re.compile(r"^CREATE (?:UNLOGGED )?TABLE tidemill\.(\w+) \(", re.MULTILINE),
    "index": re.compile(r"^CREATE (?:UNIQUE )?INDEX (\w+) ON ", re.MULTILINE),
    "constraint": re.compile(r"^ {4}(?:ADD )?CONSTRAINT (\w+) ", re.MULTILINE),
    "function": re.compile(r"^CREATE FUNCTION tidemill\.(\w+)\(", re.MULTILINE),
    "trigger": re.compile(r"^CREATE TRIGGER (\w+) ", re.MULTILINE),
    "view": re.compile(r"^CREATE VIEW tidemill\.(\w+) ", re.MULTILINE),
}
_TABLE: Final = re.compile(r"^CREATE (?:UNLOGGED )?TABLE tidemill\.(\w+) \(\n(.*?)^\)", re.MULTILINE | re.DOTALL)


def drift(objects: Sequence[tuple[str, str, str]], dump: str) -> list[str]:
    """What differs, a line each, sorted. `objects`: rows of doctor/objects; `dump`: the text of schema.sql."""
    blocks = dict(_TABLE.findall(dump))
    there = {(kind, name) for kind, name, _ in objects}
    found: list[str] = []
    live: dict[str, set[str]] = {kind: set() for kind in _NAMES}
    for kind, name, text in objects:
        table, _, part = name.partition(".")
        live.get(kind, set()).add(part or table)
        if kind == "column":
            live["table"].add(table)
            if re.search(rf"^ {{4}}{re.escape(text)}(?:[ ,\n]|$)", blocks.get(table, ""), re.MULTILINE) is None:
                found.append(f"column {name} is not as it should be (it is {text.partition(' ')[2]})")
        elif kind == "type":
            if text not in dump:
                found.append(f"type value {name} should not be there")
        elif text not in dump:
            known = _is_known(kind, part or table, dump)
            found.append(f"{kind} {name} {'is not as it should be' if known else 'should not be there'}")
    for table, block in blocks.items():
        for column in re.findall(r"^ {4}(?!CONSTRAINT )\"?(\w+)\"? ", block, re.MULTILINE):
            if table in live["table"] and ("column", f"{table}.{column}") not in there:
                found += [f"column {table}.{column} is missing"]
    for kind, pattern in _NAMES.items():
        found += [f"{kind} {name} is missing" for name in set(pattern.findall(dump)) - live[kind]]
    return sorted(set(found))


def _is_known(kind: str, name: str, dump: str) -> bool:
    pattern = _NAMES.get(kind)
    return pattern is not None and name in pattern.findall(dump)
