"""Prometheus' text format, version 0.0.4. Form: https://prometheus.io/docs/instrumenting/exposition_formats/"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Family:
    """One metric: its name, what it is, and a value per set of labels. Values of None are left out."""

    name: str
    kind: Literal["gauge", "counter"]
    text: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float | None, **labels: str) -> None:
        """One more value."""
        if value is not None:
            self.samples.append((labels, value))


def text(families: Iterable[Family]) -> str:
    """The page; families without a value are in it by name all the same."""
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {_escaped(family.text)}", f"# TYPE {family.name} {family.kind}"]
        lines += [f"{family.name}{_labels(labels)} {_number(value)}" for labels, value in family.samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    inner = ",".join('{}="{}"'.format(name, _escaped(value).replace('"', '\\"')) for name, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return repr(value)
