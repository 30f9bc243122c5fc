"""Webhooks: EventBridge Scheduler calls the courier once a minute, which asks the scheduler's function for calls and sends them."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from infra.functions import Functions
from infra.settings import Stage


class Courier(Construct):
    """Outside of the network: it reaches the internet and that one function. No secret and no way to the database."""

    def __init__(self, scope: Construct, name: str, stage: Stage, functions: Functions) -> None:
        super().__init__(scope, name)
        courier, asked = functions.by_name["courier"], functions.by_name["scheduler"]
        courier.add_environment("SCHEDULER", asked.function_name)
        assert courier.role is not None
        iam.Policy(
            self,
            "Policy",
            roles=[courier.role],
            statements=[iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[asked.function_arn])],
        )
        courier.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(1))  # the next minute's call does it
        scheduler.Schedule(
            self,
            "Round",
            schedule_name=f"tidemill-{stage.name}-courier",
            description="calls of webhooks, once a minute",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(1)),
            enabled=stage.tick,
            target=targets.LambdaInvoke(courier, retry_attempts=0, max_event_age=Duration.minutes(1)),
        )
