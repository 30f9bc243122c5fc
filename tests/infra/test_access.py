"""Who may do what in the templates: no right too many, no login but one's own, no finding without a reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.stages import ROOT, SERVING, STAGES, Templates, functions, of_type, text_of
from infra import accepted as accepted_findings
from infra import settings

ALL = list(STAGES)
STARS = {"ecr:GetAuthorizationToken"}
"""Actions that take no resource."""


def statements(template: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::Role")
    found: list[dict[str, Any]] = []
    for kind in kinds:
        for each in of_type(template, kind).values():
            documents = [each.get("PolicyDocument"), *(inner["PolicyDocument"] for inner in each.get("Policies", []))]
            found += [statement for document in documents if document for statement in document["Statement"]]
    return found


def logins(template: dict[str, Any], role: str) -> list[str]:
    """Database users that the policies of this IAM role let it be."""
    found = []
    for each in of_type(template, "AWS::IAM::Policy").values():
        if {"Ref": role} in each["Roles"]:
            for statement in each["PolicyDocument"]["Statement"]:
                if statement["Action"] == "rds-db:connect":
                    resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
                    found += [text_of(resource).rstrip('"]}').rpartition("/")[2] for resource in resources]
    return found


def found_by_nag(folder: Path) -> set[str]:
    report = json.loads((folder / "validation-report.json").read_text())
    return {violation["ruleName"] for plugin in report["pluginReports"] for violation in plugin["violations"]}


@pytest.mark.parametrize("name", ALL)
def test_no_policy_allows_every_action_or_everything(templates: Templates, name: str) -> None:
    for template in templates(name).values():
        for statement in statements(template):
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            assert not [action for action in actions if "*" in action]
            if statement.get("Resource") == "*" and statement["Effect"] == "Allow":
                assert set(actions) <= STARS or "logs:" in text_of(actions), actions


@pytest.mark.parametrize("name", ALL)
def test_each_role_logs_in_as_itself_only(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    for short, function in functions(service).items():
        role = function["Role"]["Fn::GetAtt"][0]
        assert logins(service, role) == ([f"tidemill_{short}"] if short in SERVING else []), short
        if short in SERVING:
            assert f"tidemill_{short}@" in text_of(function["Environment"]["Variables"]["TIDEMILL_DATABASE_URL"])
    task = next(iter(of_type(service, "AWS::ECS::TaskDefinition").values()))
    assert logins(service, task["TaskRoleArn"]["Fn::GetAtt"][0]) == ["tidemill_worker"]


@pytest.mark.parametrize("name", ALL)
def test_courier_reaches_the_scheduler_and_nothing_else_of_ours(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    courier = functions(service)["courier"]
    role = courier["Role"]["Fn::GetAtt"][0]
    policies = [each for each in of_type(service, "AWS::IAM::Policy").values() if role in text_of(each["Roles"])]
    allowed = [
        statement for each in policies for statement in each["PolicyDocument"]["Statement"] if "logs:" not in text_of(statement["Action"])
    ]
    (asks,) = allowed
    assert asks["Action"] == "lambda:InvokeFunction"
    assert "FunctionsScheduler" in text_of(asks["Resource"])
    assert set(courier["Environment"]["Variables"]) == {"TIDEMILL_STAGE", "POWERTOOLS_SERVICE_NAME", "SCHEDULER"}


@pytest.mark.parametrize("name", ALL)
def test_cdk_nag_has_no_unexplained_finding(assemblies: Path, name: str) -> None:
    assert found_by_nag(assemblies / name) == set()


def test_what_is_accepted_is_what_is_found(assemblies: Path) -> None:
    made = settings.read(json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]["stages"], {"stage": "dev"})
    rules = [*accepted_findings.accepted_of_stateful(made), *accepted_findings.accepted_of_service(made)]
    accepted = {accepted_findings.PREFIX + rule for rule in rules}
    assert found_by_nag(assemblies / "unaccepted") == accepted
