"""Log groups: each is ours, so that it has a retention; what AWS makes by itself is kept for ever."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.settings import Stage

_RETENTION = {days.name: days for days in logs.RetentionDays}
_DAYS = {
    1: "ONE_DAY",
    3: "THREE_DAYS",
    5: "FIVE_DAYS",
    7: "ONE_WEEK",
    14: "TWO_WEEKS",
    30: "ONE_MONTH",
    60: "TWO_MONTHS",
    90: "THREE_MONTHS",
    120: "FOUR_MONTHS",
    150: "FIVE_MONTHS",
    180: "SIX_MONTHS",
    365: "ONE_YEAR",
    400: "THIRTEEN_MONTHS",
    545: "EIGHTEEN_MONTHS",
    731: "TWO_YEARS",
    1096: "THREE_YEARS",
    1827: "FIVE_YEARS",
    2192: "SIX_YEARS",
    2557: "SEVEN_YEARS",
    2922: "EIGHT_YEARS",
    3288: "NINE_YEARS",
    3653: "TEN_YEARS",
}


def log_group(scope: Construct, name: str, stage: Stage, called: str) -> logs.LogGroup:
    """A log group whose lines are kept as long as the stage says, and which goes with the stack. `called`: a path, or a name below ours."""
    return logs.LogGroup(
        scope,
        name,
        log_group_name=called if called.startswith("/") else f"/tidemill/{stage.name}/{called}",
        retention=_RETENTION[_DAYS[stage.log_days]],
        removal_policy=RemovalPolicy.DESTROY,
    )
