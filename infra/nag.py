"""cdk-nag's AWS rules in every synthesis; infra/accepted.py has what is accepted."""

from __future__ import annotations

from aws_cdk import Acknowledgment, App, Stack, Validations
from cdk_nag import AwsSolutionsChecks

from infra.accepted import PREFIX, accepted_of_service, accepted_of_stateful
from infra.settings import Stage


def accept(stateful: Stack, service: Stack, stage: Stage) -> None:
    """Takes accepted findings out of the report."""
    for stack, accepted in ((stateful, accepted_of_stateful(stage)), (service, accepted_of_service(stage))):
        for rule, reason in accepted.items():
            Validations.of(stack).acknowledge(Acknowledgment(id=PREFIX + rule, reason=reason))


def check(app: App) -> None:
    """Has every synthesis look; findings are in validation-report.json of the assembly."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
