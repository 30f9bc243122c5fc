"""What somebody has to look at, and the topic that tells them. docs/operations.md says of each what it means and what to do."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra import budget, metrics
from infra.database import Database
from infra.functions import Functions
from infra.http_api import HttpApi
from infra.settings import Stage

ABOVE, BELOW = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD, cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
SERVING = ("enqueue", "claims", "admin", "authorizer", "scheduler", "courier")
QUIET, ALARM = cloudwatch.TreatMissingData.NOT_BREACHING, cloudwatch.TreatMissingData.BREACHING


class Alarms(Construct):
    """`names` of all alarms, in the order of docs/operations.md."""

    def __init__(self, scope: Construct, name: str, stage: Stage, database: Database, functions: Functions, http_api: HttpApi) -> None:
        super().__init__(scope, name)
        self._stage = stage
        topic = sns.Topic(self, "Topic", topic_name=f"tidemill-{stage.name}-alarms", enforce_ssl=True)
        # enforce_ssl gives the topic a policy of its own, in place of the one that lets in the account's alarms.
        grant = iam.PolicyStatement(
            sid="AlarmsOfThisAccount",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
        )
        topic.add_to_resource_policy(grant)
        if stage.alarm_email:
            topic.add_subscription(subscriptions.EmailSubscription(stage.alarm_email))
        self._action = actions.SnsAction(topic)
        self.all: list[cloudwatch.Alarm] = []
        self._own(stage)
        self._vendors(stage, database, functions, http_api)

    def _own(self, stage: Stage) -> None:
        def own(name: str) -> cloudwatch.Metric:
            return metrics.of(stage, name)

        self._add("DeadLetters", metrics.of(stage, "DeadLettered", minutes=5), 0, "jobs died in the last five minutes")
        self._add("OldestQueued", own("OldestQueuedAgeSeconds"), 300, "a due job has waited for more than five minutes", times=5)
        nobody = cloudwatch.MathExpression(
            expression="IF(backlog > 0 AND FILL(live, 0) < 1, 1, 0)",
            using_metrics={"backlog": own("Backlog"), "live": own("LiveWorkers")},
            period=Duration.minutes(1),
            label="nobody works",
        )
        self._add("NoLiveWorkers", nobody, 0, "jobs wait and no worker lives", times=10)
        if stage.tick:
            self._add(
                "TickMissing",
                own("TickDurationMs"),
                0,
                "no scheduler pass reached the database for five minutes",
                below=True,
                times=5,
                missing=ALARM,
            )
        self._add("TickErrors", metrics.of(stage, "TickErrors", minutes=5), 0, "phases of the scheduler's pass failed", times=3)
        dead = metrics.of(stage, "WebhookCallsFailed", minutes=15)
        self._add("UndeliveredWebhooks", dead, 0, "a project's webhook did not take a call in eight attempts")

    def _vendors(self, stage: Stage, database: Database, functions: Functions, http_api: HttpApi) -> None:
        failed = metrics.vendor("AWS/ApiGateway", "5xx", {"ApiId": http_api.id}, "Sum")
        self._add("ServerErrors", failed, 5, "the API answered with 5xx more than five times in five minutes")
        throttled = cloudwatch.MathExpression(
            expression=" + ".join(f"FILL({name}, 0)" for name in SERVING),
            using_metrics={name: functions.by_name[name].metric_throttles(period=Duration.minutes(5)) for name in SERVING},
            period=Duration.minutes(5),
            label="throttled",
        )
        self._add("Throttles", throttled, 0, "Lambda refused to start a function", times=2)
        broken = functions.by_name["courier"].metric_errors(period=Duration.minutes(5))
        self._add("CourierErrors", broken, 0, "the courier failed: error webhooks do not go out", times=3)
        used = metrics.vendor("AWS/RDS", "DatabaseConnections", database.dimensions, "Maximum")
        self._add("Connections", used, int(budget.available(stage) * 0.8), "four fifths of the database's connections are taken")
        old = metrics.vendor("AWS/RDS", "MaximumUsedTransactionIDs", database.dimensions, "Maximum")
        self._add("TransactionIds", old, 1_000_000_000, "half of the transaction ids are used, and vacuum cannot free them")
        if stage.is_aurora:
            full = metrics.vendor("AWS/RDS", "ACUUtilization", database.dimensions, "Average")
            self._add("Capacity", full, 90, "Aurora runs at its upper limit", times=3)
        else:
            free = metrics.vendor("AWS/RDS", "FreeStorageSpace", database.dimensions, "Minimum")
            self._add("Storage", free, stage.storage_gb * 1e9 * 0.15, "less than 15 % of the first storage is free", below=True)

    def _add(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        threshold: float,
        text: str,
        *,
        below: bool = False,
        times: int = 1,
        missing: cloudwatch.TreatMissingData = QUIET,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"tidemill-{self._stage.name}-{name}",
            metric=metric,
            threshold=threshold,
            evaluation_periods=times,
            comparison_operator=BELOW if below else ABOVE,
            treat_missing_data=missing,
            alarm_description=f"{text} (docs/operations.md)",
        )
        alarm.add_alarm_action(self._action)
        alarm.add_ok_action(self._action)
        self.all.append(alarm)
