"""How metrics leave: embedded metric format for CloudWatch, text for Prometheus (observe/), and that the documents name what there is."""

import json
import re
from pathlib import Path

from tidemill.domain.figures import Figures
from tidemill.domain.jobs import PhaseReport
from tidemill.observe import emf, prometheus
from tidemill.observe.prometheus import Family

ROOT = Path(__file__).resolve().parents[2]
FIGURES = Figures(5, 4, 3, 2_500, 1, 2, 32, 10, 9, 8, 7, 6_000)


def test_figures_are_one_line_that_cloudwatch_understands() -> None:
    line = emf.line("prod", emf.of_figures(FIGURES), at_ms=1_700_000_000_000)
    assert "\n" not in line
    told = json.loads(line)
    (about,) = told["_aws"]["CloudWatchMetrics"]
    assert about["Namespace"] == "tidemill"
    assert about["Dimensions"] == [["Stage"]]
    assert told["Stage"] == "prod"
    assert told["_aws"]["Timestamp"] == 1_700_000_000_000
    assert len(about["Metrics"]) <= 100
    for metric in about["Metrics"]:
        assert isinstance(told[metric["Name"]], int | float)
    assert (told["QueuedJobs"], told["Backlog"], told["OldestQueuedAgeSeconds"], told["DeadLettered"]) == (5, 8, 2.5, 7)


def test_pass_tells_its_errors() -> None:
    phases = [PhaseReport("a"), PhaseReport("b", error="unavailable"), PhaseReport("c", backlog=True)]
    assert emf.of_pass(phases, 12) == {"TickDurationMs": 12, "TickErrors": 1, "TickBacklogPhases": 1}


def test_document_names_every_metric_and_no_other() -> None:
    text = (ROOT / "docs" / "operations-metrics.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([A-Z]\w+)` \|", text, re.MULTILINE)) == set(emf.UNITS)
    assert set(emf.of_figures(FIGURES)) | set(emf.of_pass([], 0)) | set(emf.of_calls({"failed": 1})) == set(emf.UNITS)


def test_prometheus_text_escapes_what_it_must() -> None:
    family = Family("m", "gauge", "two\nlines")
    family.add(1, queue='a"b\\c')
    family.add(2.5)
    family.add(None, queue="left out")
    assert prometheus.text([family]) == '# HELP m two\\nlines\n# TYPE m gauge\nm{queue="a\\"b\\\\c"} 1\nm 2.5\n'
