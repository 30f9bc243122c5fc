"""What README and handbook tell to type is what the stage has: commands, names, outputs."""

import json
import re

import pytest

from harness.stages import ROOT, Templates, of_type, text_of
from infra import settings

README = (ROOT / "README.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [README, OPERATIONS], ids=["README", "operations"])
def test_every_command_of_the_cdk_names_its_stage(text: str) -> None:
    """Each of them runs the app, `cdk bootstrap` too, and the app stops without a stage."""
    typed = re.findall(r"(?:^\$ |`)(cdk (?:bootstrap|deploy|diff|destroy)\b[^`\n#]*)", text, re.MULTILINE)
    assert typed
    assert [command for command in typed if "-c stage=" not in command] == []


def test_the_app_of_cdk_json_brings_what_it_needs() -> None:
    app = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["app"]
    scripts = re.findall(r"scripts/\w+", app)
    assert scripts[:2] == ["scripts/setup", "scripts/build"]  # the environment, then the page: neither is in a clean clone
    assert all((ROOT / script).is_file() for script in scripts)
    assert app.endswith("exec .venv/bin/python -O -m infra")


def test_what_is_typed_into_the_aws_command_line_exists(templates: Templates) -> None:
    service = templates("dev")["Service"]
    secrets = {each.get("Name") for each in of_type(service, "AWS::SecretsManager::Secret").values()}
    functions = {each.get("FunctionName") for each in of_type(service, "AWS::Lambda::Function").values()}
    text = README + OPERATIONS
    for secret in re.findall(r"--secret-id (\S+)", text):
        assert secret in secrets
    for function in re.findall(r"--function-name (\S+)", text):
        assert function.replace("<stage>", "dev") in functions
    assert set(service["Outputs"]) >= {"Url", "FirstLogin"}


def test_names_in_the_handbook_are_those_of_the_stage(templates: Templates) -> None:
    service = templates("dev")["Service"]
    topics = {each["TopicName"] for each in of_type(service, "AWS::SNS::Topic").values()}
    boards = {each["DashboardName"] for each in of_type(service, "AWS::CloudWatch::Dashboard").values()}
    groups = {each["LogGroupName"] for each in of_type(service, "AWS::Logs::LogGroup").values()}
    assert "`tidemill-<stage>-alarms`" in OPERATIONS
    assert "`tidemill-<stage>`" in OPERATIONS
    assert (topics, boards) == ({"tidemill-dev-alarms"}, {"tidemill-dev"})
    for group in re.findall(r"log group `(\w+)`", OPERATIONS):
        assert f"/tidemill/dev/{group}" in groups


def test_settings_in_the_handbook_are_settings() -> None:
    for name in re.findall(r"`(\w+)=", OPERATIONS):
        if name.islower():
            assert name in settings.NAMES, name


def test_alarms_in_the_handbook_are_alarms(templates: Templates) -> None:
    """The other way round than test_running: none is told of that is no more."""
    told = set(re.findall(r"^\| `([A-Z]\w+)` \|", OPERATIONS, re.MULTILINE))
    made = {text_of(each["AlarmName"]).strip('"').rpartition("-")[2]
            for name in ("dev", "aurora") for each in of_type(templates(name)["Service"], "AWS::CloudWatch::Alarm").values()
            if "AlarmName" in each}  # fmt: skip
    assert told == made


def test_tls_is_chosen_where_it_can_be(templates: Templates) -> None:
    def certificate(name: str) -> dict[str, object]:
        (made,) = of_type(templates(name)["Service"], "AWS::CloudFront::Distribution").values()
        found: dict[str, object] = made["DistributionConfig"].get("ViewerCertificate", {})
        return found

    assert certificate("everything")["MinimumProtocolVersion"] == "TLSv1.2_2021"
    assert "MinimumProtocolVersion" not in certificate("dev")
