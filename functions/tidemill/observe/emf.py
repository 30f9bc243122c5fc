"""CloudWatch's embedded metric format: a line of JSON in the log, which becomes metrics without a call to anybody.

Form: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
The names, and what each is for, are in docs/operations-metrics.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidemill.domain.figures import Figures
from tidemill.domain.jobs import PhaseReport

NAMESPACE: Final = "tidemill"
UNITS: Final[Mapping[str, str]] = {
    "QueuedJobs": "Count", "ScheduledJobs": "Count", "RunningJobs": "Count", "Backlog": "Count", "OldestQueuedAgeSeconds": "Seconds",
    "DeadLetterJobs": "Count", "LiveWorkers": "Count", "WorkerSlots": "Count", "ArrivedJobs": "Count", "CompletedJobs": "Count",
    "FailedAttempts": "Count", "DeadLettered": "Count", "CounterLagSeconds": "Seconds",
    "TickDurationMs": "Milliseconds", "TickErrors": "Count", "TickBacklogPhases": "Count",
    "WebhookCallsFailed": "Count",
}  # fmt: skip


def line(stage: str, values: Mapping[str, float], *, at_ms: int) -> str:
    """One line with these metrics, by the one dimension Stage. `at_ms`: Unix time."""
    metrics = [{"Name": name, "Unit": UNITS[name]} for name in values]
    about: dict[str, Any] = {
        "Timestamp": at_ms,
        "CloudWatchMetrics": [{"Namespace": NAMESPACE, "Dimensions": [["Stage"]], "Metrics": metrics}],
    }
    return json.dumps({"_aws": about, "Stage": stage, **values}, separators=(",", ":"))


def of_figures(figures: Figures) -> dict[str, float]:
    """The metrics of a publish."""
    return {
        "QueuedJobs": figures.queued,
        "ScheduledJobs": figures.scheduled,
        "RunningJobs": figures.running,
        "Backlog": figures.queued + figures.running,
        "OldestQueuedAgeSeconds": figures.oldest_queued_age_ms / 1000,
        "DeadLetterJobs": figures.dead,
        "LiveWorkers": figures.workers,
        "WorkerSlots": figures.slots,
        "ArrivedJobs": figures.arrived,
        "CompletedJobs": figures.completed,
        "FailedAttempts": figures.failed,
        "DeadLettered": figures.died,
        "CounterLagSeconds": figures.lag_ms / 1000,
    }


def of_pass(phases: Sequence[PhaseReport], duration_ms: int) -> dict[str, float]:
    """The metrics of a scheduler pass."""
    return {
        "TickDurationMs": duration_ms,
        "TickErrors": sum(phase.error is not None for phase in phases),
        "TickBacklogPhases": sum(phase.backlog for phase in phases),
    }


def of_calls(counts: Mapping[str, int]) -> dict[str, float]:
    """The metrics of a courier's rounds; none where there is nothing to tell."""
    return {"WebhookCallsFailed": counts["failed"]} if counts.get("failed") else {}
