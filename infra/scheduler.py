"""Time: EventBridge Scheduler calls the scheduler's Lambda once a minute."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from infra.settings import Stage


class Scheduler(Construct):
    """A missed minute is not made up for: the next pass does its work."""

    def __init__(self, scope: Construct, name: str, stage: Stage, function: lambda_.Function) -> None:
        super().__init__(scope, name)
        # The Scheduler hands its call to Lambda's own queue, which would try a failed pass twice more beside the next minute's.
        function.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(1))
        scheduler.Schedule(
            self,
            "Tick",
            schedule_name=f"tidemill-{stage.name}-tick",
            description="one scheduler run a minute",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(1)),
            enabled=stage.tick,
            target=targets.LambdaInvoke(function, retry_attempts=0, max_event_age=Duration.minutes(1)),
        )
