"""Who may do what: every role of a stage with every action and what it reaches, no more and no less, and the handbook names each."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from harness.stages import ROOT, STAGES, Templates, of_type, text_of
from infra.specs import INTERFACES, SPECS

ALL = list(STAGES)
LOGS = {"logs:CreateLogStream": "Log", "logs:PutLogEvents": "Log"}
FUNCTIONS = {
    **{f"Functions{name.title()}Role": {"rds-db:connect": f"/tidemill_{name}", **LOGS}
       for name in ("enqueue", "claims", "admin", "authorizer", "scheduler")},
    "FunctionsMigratorRole": LOGS,
    "FunctionsCourierRole": {"lambda:InvokeFunction": "FunctionsScheduler", **LOGS},
    "FunctionsDeployRole": {
        "secretsmanager:GetSecretValue": "MasterUserSecret|MasterSecret|MigrationsFirstLogin|MigrationsOrigin",
        "secretsmanager:PutSecretValue": "MigrationsFirstLogin", "lambda:InvokeFunction": "FunctionsMigrator",
        "s3:PutObject": "EdgePage.*/index.html", **LOGS,
    },
}  # fmt: skip
OTHERS = {
    "WorkerTaskRole": {
        "rds-db:connect": "/tidemill_worker", "ecs:GetTaskProtection": ":task/tidemill-", "ecs:UpdateTaskProtection": ":task/tidemill-",
    },
    "WorkerTaskExecutionRole": {
        **{f"ecr:{action}": "container-assets" for action in ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer")},
        "ecr:GetAuthorizationToken": r'"\*"', **LOGS,
    },
    "SchedulerRoleForTarget": {"lambda:InvokeFunction": "FunctionsScheduler|FunctionsCourier"},
}  # fmt: skip
ROLES = {**FUNCTIONS, **OTHERS}
"""Logical id of a role (without its hash), action, and what every resource of it must contain."""
IN_VPC = [name for name, spec in SPECS.items() if spec.in_vpc]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def statements(template: dict[str, Any], role: str) -> Iterator[dict[str, Any]]:
    """Of all policies that a role (by logical id) has in this template."""
    properties = template["Resources"][role]["Properties"]
    for inner in properties.get("Policies", []):
        yield from inner["PolicyDocument"]["Statement"]
    for policy in of_type(template, "AWS::IAM::Policy").values():
        if {"Ref": role} in policy["Roles"]:
            yield from policy["PolicyDocument"]["Statement"]


@pytest.mark.parametrize("name", ALL)
def test_each_role_may_do_exactly_what_its_code_does(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    for role in of_type(service, "AWS::IAM::Role"):
        known = re.sub(r"([0-9a-f]{6})?[0-9A-F]{8}$", "", role)
        if known.startswith("CustomCrossRegion"):
            continue  # the CDK's own, where the web ACL is in another region
        expected = ROLES[known]
        found: set[str] = set()
        for statement in statements(service, role):
            if statement["Effect"] == "Allow":
                for action in listed(statement["Action"]):
                    found.add(action)
                    for resource in listed(statement["Resource"]):
                        assert re.search(expected[action], text_of(resource)), (role, action, resource)
        assert found == set(expected), role


@pytest.mark.parametrize("name", ALL)
def test_only_services_take_our_roles_and_only_for_this_account(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    for role, about in of_type(service, "AWS::IAM::Role").items():
        for statement in about["AssumeRolePolicyDocument"]["Statement"]:
            assert set(statement["Principal"]) == {"Service"}
            if role.startswith(("SchedulerRole", "WorkerTaskRole")):
                assert statement["Condition"]["StringEquals"]["aws:SourceAccount"] == {"Ref": "AWS::AccountId"}


@pytest.mark.parametrize("name", ALL)
def test_code_in_a_function_cannot_make_network_interfaces(templates: Templates, name: str) -> None:
    """Lambda makes them by the function's role before its code runs; that right is not the code's."""
    service = templates(name)["Service"]
    for function in of_type(service, "AWS::Lambda::Function").values():
        short = function.get("FunctionName", "").rpartition("-")[2]
        if short in IN_VPC:
            denied = [each for each in statements(service, function["Role"]["Fn::GetAtt"][0]) if each["Effect"] == "Deny"]
            (deny,) = denied
            assert set(deny["Action"]) == {f"ec2:{action}" for action in INTERFACES}
            assert f":function:{function['FunctionName']}" in text_of(deny["Condition"]["ArnEquals"]["lambda:SourceFunctionArn"])


@pytest.mark.parametrize("name", ALL)
def test_lambda_is_called_by_the_gateway_of_this_stage_and_nobody_else(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    for each in of_type(service, "AWS::Lambda::Permission").values():
        assert each["Principal"] == "apigateway.amazonaws.com"
        assert "HttpApi" in text_of(each["SourceArn"])


@pytest.mark.parametrize("name", ALL)
def test_database_says_nothing_of_what_it_stores_in_its_log(templates: Templates, name: str) -> None:
    stateful = templates(name)["Stateful"]
    groups = {**of_type(stateful, "AWS::RDS::DBParameterGroup"), **of_type(stateful, "AWS::RDS::DBClusterParameterGroup")}
    assert groups
    for each in groups.values():
        said = each["Parameters"]
        assert (said["rds.force_ssl"], said["log_parameter_max_length"], said["log_error_verbosity"]) == ("1", "0", "terse")
        # RDS takes another word from version 18 on, and refuses the one before.
        assert said["log_connections"] == ("authorization" if each["Family"] == "postgres18" else "1")


def test_security_handbook_names_every_role_and_secret(templates: Templates) -> None:
    handbook = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    table = handbook.partition("## IAM roles")[2].partition("\n## ")[0]
    for name in (*SPECS, "worker", "worker, at its start", "tick", "courier's clock", "proxy", "flow log"):
        assert f"| {name} |" in table, name
    for template in (templates(name)["Service"] for name in ALL):
        for about in of_type(template, "AWS::SecretsManager::Secret").values():
            told = about.get("Name", "").rpartition("/")[2] or "front door"
            assert told in handbook.partition("## Secrets")[2].partition("\n## ")[0].replace("front door's", "front door")
