"""The metrics that tidemill prints (docs/operations-metrics.md) and those of the vendor that its alarms and dashboard look at."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from infra.settings import Stage

NAMESPACE = "tidemill"
OURS = {
    "QueuedJobs": "Maximum",
    "ScheduledJobs": "Maximum",
    "RunningJobs": "Maximum",
    "Backlog": "Maximum",
    "OldestQueuedAgeSeconds": "Maximum",
    "DeadLetterJobs": "Maximum",
    "LiveWorkers": "Minimum",
    "ArrivedJobs": "Sum",
    "CompletedJobs": "Sum",
    "FailedAttempts": "Sum",
    "DeadLettered": "Sum",
    "TickDurationMs": "Maximum",
    "TickErrors": "Sum",
    "WebhookCallsFailed": "Sum",
}
"""Metric and the statistic to look at it with."""


def of(stage: Stage, name: str, *, minutes: int = 1) -> cloudwatch.Metric:
    """One of ours."""
    return cloudwatch.Metric(
        namespace=NAMESPACE, metric_name=name, dimensions_map={"Stage": stage.name}, statistic=OURS[name], period=Duration.minutes(minutes)
    )


def vendor(namespace: str, name: str, dimensions: dict[str, str], statistic: str, *, minutes: int = 5) -> cloudwatch.Metric:
    """One of AWS's."""
    return cloudwatch.Metric(
        namespace=namespace, metric_name=name, dimensions_map=dimensions, statistic=statistic, period=Duration.minutes(minutes)
    )
