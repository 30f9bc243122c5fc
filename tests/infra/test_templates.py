"""What matters in the templates: nothing public, nothing unencrypted, no right too many, every name as the code reads it."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from harness.stages import ROOT, STAGES, Templates, of_type, text_of
from infra import accepted as accepted_findings
from infra import settings
from tidemill.config import Settings
from tidemill.http import routes
from tidemill.local import page

ALL = list(STAGES)
SETTINGS = {"TIDEMILL_" + each.name.upper() for each in fields(Settings)}
OTHERS = {
    "POWERTOOLS_SERVICE_NAME",
    "MASTER_SECRET",
    "FIRST_LOGIN_SECRET",
    "ORIGIN_SECRET",
    "ORIGIN_SECRET_BEFORE",
    "MIGRATOR",
    "SCHEDULER",
}
SERVING = ("enqueue", "claims", "admin", "authorizer", "scheduler")
STARS = {"ecr:GetAuthorizationToken"}
"""Actions that take no resource."""


def functions(service: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Properties of our Lambdas by short name; those of the CDK have no name."""
    found = of_type(service, "AWS::Lambda::Function").values()
    return {each["FunctionName"].rpartition("-")[2]: each for each in found if "FunctionName" in each}


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
def test_database_is_private_encrypted_and_takes_signed_logins(templates: Templates, name: str) -> None:
    stateful = templates(name)["Stateful"]
    instances, clusters = of_type(stateful, "AWS::RDS::DBInstance"), of_type(stateful, "AWS::RDS::DBCluster")
    assert all(each["PubliclyAccessible"] is False for each in instances.values())
    holders = clusters or instances
    assert holders
    for each in holders.values():
        assert each["StorageEncrypted"] is True
        assert each["EnableIAMDatabaseAuthentication"] is True
        assert each["ManageMasterUserPassword"] is True
        assert "MasterUserPassword" not in each
    assert all(each["Parameters"]["rds.force_ssl"] == "1" for each in of_type(stateful, "AWS::RDS::DBParameterGroup").values())
    for logical, each in stateful["Resources"].items():
        if each["Type"] in ("AWS::RDS::DBInstance", "AWS::RDS::DBCluster") and logical in holders:
            assert each["DeletionPolicy"] == "Snapshot"


@pytest.mark.parametrize("name", ALL)
def test_only_our_own_groups_reach_the_database(templates: Templates, name: str) -> None:
    stateful = templates(name)["Stateful"]
    for each in of_type(stateful, "AWS::EC2::SecurityGroupIngress").values():
        assert "SourceSecurityGroupId" in each
        assert "CidrIp" not in each
    for logical, each in of_type(stateful, "AWS::EC2::SecurityGroup").items():
        if "Endpoint" not in logical and "SecurityGroupIngress" in each:
            assert "Images" in logical or "Layers" in logical or "Logs" in logical


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
def test_lambdas_are_arm_short_and_logged_for_a_stated_time(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    found = functions(service)
    assert set(found) == {*SERVING, "migrator", "deploy", "courier"}
    for short, function in found.items():
        assert function["Architectures"] == ["arm64"]
        assert function["Runtime"] == "python3.13"
        assert function["Timeout"] < 30 or short in ("scheduler", "migrator", "deploy", "courier")
        assert "LogGroup" in function["LoggingConfig"]
        assert ("VpcConfig" in function) is (short not in ("deploy", "courier"))
        assert ("ReservedConcurrentExecutions" in function) is (STAGES[name]["stage"] == "prod" and short in SERVING)
    for each in of_type(service, "AWS::Logs::LogGroup").values():
        assert each["RetentionInDays"] in (30, 90)


@pytest.mark.parametrize("name", ALL)
def test_environments_hold_settings_that_exist_and_no_secret(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    seen = [each["Environment"]["Variables"] for each in functions(service).values()]
    task = next(iter(of_type(service, "AWS::ECS::TaskDefinition").values()))
    seen.append({pair["Name"]: pair["Value"] for pair in task["ContainerDefinitions"][0]["Environment"]})
    for variables in seen:
        assert set(variables) <= SETTINGS | OTHERS
        assert "resolve:secretsmanager" not in text_of(variables)
        literal = {key: value for key, value in variables.items() if key in SETTINGS and isinstance(value, str)}
        literal.pop("TIDEMILL_DATABASE_CA_FILE", None)
        Settings.read(literal)


def test_env_of_the_template_is_what_the_code_reads(templates: Templates, tmp_path: Path) -> None:
    variables = functions(templates("dev")["Service"])["enqueue"]["Environment"]["Variables"]
    certificates = ROOT / "functions" / Path(variables["TIDEMILL_DATABASE_CA_FILE"]).relative_to("/var/task")
    filled = {
        **{key: value for key, value in variables.items() if isinstance(value, str) and key in SETTINGS},
        "TIDEMILL_DATABASE_URL": "postgresql://tidemill_enqueue@host:5432/tidemill",
        "TIDEMILL_DATABASE_CA_FILE": str(certificates),
    }
    made = Settings.read(filled)
    assert (made.stage, made.database_auth, made.trusted_proxies) == ("dev", "iam", 1)


@pytest.mark.parametrize("name", ALL)
def test_every_route_of_the_table_is_one_of_the_gateway(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    keys = {each["RouteKey"]: each for each in of_type(service, "AWS::ApiGatewayV2::Route").values()}
    integrations = of_type(service, "AWS::ApiGatewayV2::Integration")
    authorizers = of_type(service, "AWS::ApiGatewayV2::Authorizer")
    assert "$default" in keys
    for route in routes.TABLE:
        collection = next((each for each in routes.VERBS if route.path.startswith(f"/v1/{each}/{{")), None)
        path = f"/v1/{collection}/{{proxy+}}" if collection else route.path
        served = keys.get(f"{route.method} {path}") or keys[f"ANY {path}"]
        target = text_of(integrations[served["Target"]["Fn::Join"][1][1]["Ref"]]["IntegrationUri"]).lower()
        assert f"functions{route.function}" in target, route
        authorizer = authorizers[served["AuthorizerId"]["Ref"]]
        assert served["AuthorizationType"] == "CUSTOM"
        asks_for_caller = "$request.header.Authorization" in authorizer["IdentitySource"]
        assert "$request.header.x-tidemill-origin" in authorizer["IdentitySource"]
        assert asks_for_caller or authorizer["AuthorizerResultTtlInSeconds"] == 0
        assert not (asks_for_caller and route.scopes is None), route


@pytest.mark.parametrize("name", ALL)
def test_api_is_throttled_and_logged(templates: Templates, name: str) -> None:
    (stage,) = of_type(templates(name)["Service"], "AWS::ApiGatewayV2::Stage").values()
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] > 0
    logged = json.loads(stage["AccessLogSettings"]["Format"])
    assert {"request_id", "status", "path", "ip"} <= set(logged)
    assert "authorization" not in text_of(logged).lower()


def test_page_is_private_and_carries_the_policy_of_its_built_file(templates: Templates) -> None:
    service = templates("dev")["Service"]
    (bucket,) = of_type(service, "AWS::S3::Bucket").values()
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    (distribution,) = of_type(service, "AWS::CloudFront::Distribution").values()
    config = distribution["DistributionConfig"]
    assert {each["PathPattern"] for each in config["CacheBehaviors"]} == {"/v1/*", "/healthz", "/readyz"}
    origins = {each["Id"]: each for each in config["Origins"]}
    to_page = origins[config["DefaultCacheBehavior"]["TargetOriginId"]]
    assert to_page["OriginAccessControlId"]
    header = next(each["OriginCustomHeaders"][0] for each in origins.values() if "OriginCustomHeaders" in each)
    assert header["HeaderName"] == "x-tidemill-origin"
    assert "{{resolve:secretsmanager:" in text_of(header["HeaderValue"])
    policies = [
        each["ResponseHeadersPolicyConfig"]["SecurityHeadersConfig"]["ContentSecurityPolicy"]["ContentSecurityPolicy"]
        for each in of_type(service, "AWS::CloudFront::ResponseHeadersPolicy").values()
    ]
    built = ROOT / "frontend" / "dist" / "index.html"
    if built.is_file():
        assert page.policy(built.read_text(encoding="utf-8")) in policies
    assert all(policy.startswith("default-src 'none'") for policy in policies)


@pytest.mark.parametrize("name", ALL)
def test_worker_is_confined_and_has_time_to_drain(templates: Templates, name: str) -> None:
    (task,) = of_type(templates(name)["Service"], "AWS::ECS::TaskDefinition").values()
    (container,) = task["ContainerDefinitions"]
    assert task["RuntimePlatform"]["CpuArchitecture"] == "ARM64"
    assert container["ReadonlyRootFilesystem"] is True
    assert container["User"] == "10001:10001"
    assert container["StopTimeout"] == 120
    assert container["LinuxParameters"]["InitProcessEnabled"] is True
    assert container["LinuxParameters"]["Capabilities"]["Drop"] == ["ALL"]
    assert container["Command"][container["Command"].index("--stop-window-secs") + 1] == "110"
    assert [point["ContainerPath"] for point in container["MountPoints"]] == ["/tmp"]


def test_workers_scale_to_none_and_back_by_exact_numbers(templates: Templates) -> None:
    service = templates("dev")["Service"]
    (target,) = of_type(service, "AWS::ApplicationAutoScaling::ScalableTarget").values()
    assert (target["MinCapacity"], target["MaxCapacity"]) == (0, 2)
    policies = of_type(service, "AWS::ApplicationAutoScaling::ScalingPolicy").values()
    steps = [policy["StepScalingPolicyConfiguration"] for policy in policies]
    assert all(each["AdjustmentType"] == "ExactCapacity" for each in steps)
    changes = {adjustment["ScalingAdjustment"] for each in steps for adjustment in each["StepAdjustments"]}
    assert {0, 1} <= changes


@pytest.mark.parametrize("name", ALL)
def test_nothing_serves_before_the_schema_is_there(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    schema = next(logical for logical, each in service["Resources"].items() if each["Type"] == "Custom::TidemillSchema")
    assert service["Resources"][schema]["DeletionPolicy"] == "Retain"
    for each in service["Resources"].values():
        if each["Type"] == "AWS::Lambda::Function" and "FunctionName" in each["Properties"]:
            early = each["Properties"]["FunctionName"].endswith(("-deploy", "-migrator"))
            assert (schema in each.get("DependsOn", [])) is not early
    clocks = {each["Name"].rpartition("-")[2]: each["State"] for each in of_type(service, "AWS::Scheduler::Schedule").values()}
    assert clocks == dict.fromkeys(("tick", "courier"), "DISABLED" if name == "proxy" else "ENABLED")


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


def test_prod_cannot_be_deleted_by_accident(templates: Templates, assemblies: Path) -> None:
    (instance,) = of_type(templates("prod")["Stateful"], "AWS::RDS::DBInstance").values()
    assert instance["DeletionProtection"] is True
    manifest = json.loads((assemblies / "prod" / "manifest.json").read_text())
    assert manifest["artifacts"]["Tidemill-prod-Stateful"]["properties"]["terminationProtection"] is True


@pytest.mark.parametrize("name", ALL)
def test_cdk_nag_has_no_unexplained_finding(assemblies: Path, name: str) -> None:
    assert found_by_nag(assemblies / name) == set()


def test_what_is_accepted_is_what_is_found(assemblies: Path) -> None:
    made = settings.read(json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]["stages"], {"stage": "dev"})
    rules = [*accepted_findings.accepted_of_stateful(made), *accepted_findings.accepted_of_service(made)]
    accepted = {accepted_findings.PREFIX + rule for rule in rules}
    assert found_by_nag(assemblies / "unaccepted") == accepted


@pytest.mark.parametrize("name", ALL)
def test_every_alarm_is_explained_in_the_handbook(templates: Templates, name: str) -> None:
    handbook = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for each in of_type(templates(name)["Service"], "AWS::CloudWatch::Alarm").values():
        if "AlarmName" in each:  # the others belong to autoscaling
            assert f"`{each['AlarmName'].rpartition('-')[2]}`" in handbook
            assert each["AlarmActions"]


@pytest.mark.parametrize("name", ALL)
def test_alarms_may_reach_their_topic(templates: Templates, name: str) -> None:
    (policy,) = of_type(templates(name)["Service"], "AWS::SNS::TopicPolicy").values()
    allowed = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
    assert [(each["Principal"], each["Action"]) for each in allowed] == [({"Service": "cloudwatch.amazonaws.com"}, "sns:Publish")]
    assert allowed[0]["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


@pytest.mark.parametrize("name", ALL)
def test_the_databases_own_log_is_not_kept_for_ever(templates: Templates, name: str) -> None:
    stateful = templates(name)["Stateful"]
    groups = {each.get("LogGroupName"): each["RetentionInDays"] for each in of_type(stateful, "AWS::Logs::LogGroup").values()}
    for kind, key in (("DBInstance", "DBInstanceIdentifier"), ("DBCluster", "DBClusterIdentifier")):
        for database in of_type(stateful, f"AWS::RDS::{kind}").values():
            for log in database.get("EnableCloudwatchLogsExports", []):
                assert groups[f"/aws/rds/{kind[2:].lower()}/{database[key]}/{log}"] in (30, 90)


@pytest.mark.parametrize("name", ALL)
def test_a_failed_pass_is_not_tried_again_beside_the_next(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    tick = next(
        each for each in of_type(service, "AWS::Lambda::EventInvokeConfig").values() if "Scheduler" in text_of(each["FunctionName"])
    )
    assert (tick["MaximumRetryAttempts"], tick["MaximumEventAgeInSeconds"]) == (0, 60)


@pytest.mark.parametrize("name", ALL)
def test_cloudformation_waits_little_longer_than_the_deploy_function_may_run(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    longest = functions(service)["deploy"]["Timeout"]
    for kind in ("Custom::TidemillSchema", "Custom::TidemillPage"):
        (made,) = of_type(service, kind).values()
        assert longest < int(made["ServiceTimeout"]) < longest + 60


def test_the_web_acl_is_where_cloudfront_takes_it_from(templates: Templates, assemblies: Path) -> None:
    everything, prod = templates("everything"), templates("prod")
    assert len(of_type(prod["Service"], "AWS::WAFv2::WebACL")) == 1  # templates for no region: it must go to us-east-1
    assert not of_type(everything["Service"], "AWS::WAFv2::WebACL")
    assert len(of_type(everything["Firewall"], "AWS::WAFv2::WebACL")) == 1
    manifest = json.loads((assemblies / "everything" / "manifest.json").read_text())["artifacts"]
    places = {each: manifest[f"Tidemill-prod-{each}"]["environment"].rpartition("/")[2] for each in ("Stateful", "Service", "Firewall")}
    assert places == {"Stateful": "eu-west-1", "Service": "eu-west-1", "Firewall": "us-east-1"}
    (distribution,) = of_type(everything["Service"], "AWS::CloudFront::Distribution").values()
    assert "ExportsReader" in text_of(distribution["DistributionConfig"]["WebACLId"])
    assert "Tidemill-prod-Firewall" in manifest["Tidemill-prod-Service"]["dependencies"]


def test_a_new_front_door_leaves_the_one_before_in_place(templates: Templates) -> None:
    service = templates("everything")["Service"]
    secrets = [name for name in of_type(service, "AWS::SecretsManager::Secret") if name.startswith("MigrationsOrigin")]
    assert len(secrets) == 2
    before = next(
        name for name in of_type(templates("prod")["Service"], "AWS::SecretsManager::Secret") if name.startswith("MigrationsOrigin")
    )
    assert before in secrets
    assert functions(service)["deploy"]["Environment"]["Variables"]["ORIGIN_SECRET_BEFORE"] == {"Ref": before}
    schema = next(each for each in service["Resources"].values() if each["Type"] == "Custom::TidemillSchema")
    assert schema["Properties"]["FrontDoor"] == 2  # so that CloudFormation asks again
    (distribution,) = [each for each in service["Resources"].values() if each["Type"] == "AWS::CloudFront::Distribution"]
    assert {"Authorizer", "Admin"} <= {name.removeprefix("Functions")[:-8] for name in distribution["DependsOn"] if "Role" not in name}


def test_metrics_are_those_that_the_code_prints(templates: Templates) -> None:
    told = (ROOT / "docs" / "operations-metrics.md").read_text(encoding="utf-8")
    for each in of_type(templates("dev")["Service"], "AWS::CloudWatch::Alarm").values():
        metrics = [each, *(query["MetricStat"]["Metric"] for query in each.get("Metrics", []) if "MetricStat" in query)]
        for metric in metrics:
            if metric.get("Namespace") == "tidemill":
                assert f"`{metric['MetricName']}`" in told
