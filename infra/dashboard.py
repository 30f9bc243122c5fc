"""One CloudWatch dashboard per stage: alarms, work, workers, the API, the database."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra import metrics
from infra.alarms import Alarms
from infra.database import Database
from infra.http_api import HttpApi
from infra.settings import Stage


class Dashboard(Construct):
    """`tidemill-<stage>` in the console."""

    def __init__(self, scope: Construct, name: str, stage: Stage, alarms: Alarms, database: Database, http_api: HttpApi) -> None:
        super().__init__(scope, name)

        def graph(title: str, *left: cloudwatch.IMetric, right: list[cloudwatch.IMetric] | None = None) -> cloudwatch.GraphWidget:
            return cloudwatch.GraphWidget(title=title, left=list(left), right=right or [], width=12, height=6)

        def own(*names: str) -> list[cloudwatch.IMetric]:
            return [metrics.of(stage, each) for each in names]

        def rds(metric: str, statistic: str) -> cloudwatch.Metric:
            return metrics.vendor("AWS/RDS", metric, database.dimensions, statistic)

        def gateway(metric: str, statistic: str) -> cloudwatch.Metric:
            return metrics.vendor("AWS/ApiGateway", metric, {"ApiId": http_api.id}, statistic)

        board = cloudwatch.Dashboard(self, "Board", dashboard_name=f"tidemill-{stage.name}")
        board.add_widgets(cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms.all), width=24, height=3))
        board.add_widgets(
            graph("Jobs now", *own("QueuedJobs", "RunningJobs", "ScheduledJobs")),
            graph("Jobs a minute", *own("ArrivedJobs", "CompletedJobs")),
        )
        board.add_widgets(
            graph("Longest wait, seconds; dead letters", *own("OldestQueuedAgeSeconds"), right=own("DeadLetterJobs")),
            graph("Failures", *own("FailedAttempts", "DeadLettered", "TickErrors")),
        )
        board.add_widgets(
            graph("Live workers; backlog", *own("LiveWorkers"), right=own("Backlog")), graph("Scheduler pass, ms", *own("TickDurationMs"))
        )
        board.add_widgets(
            graph("API: requests; p99 ms", gateway("Count", "Sum"), right=[gateway("Latency", "p99")]),
            graph("API: 4xx and 5xx", gateway("4xx", "Sum"), gateway("5xx", "Sum")),
        )
        board.add_widgets(
            graph("Database: CPU %; connections", rds("CPUUtilization", "Average"), right=[rds("DatabaseConnections", "Maximum")]),
            graph("Database: free memory; write latency", rds("FreeableMemory", "Minimum"), right=[rds("WriteLatency", "Average")]),
        )
