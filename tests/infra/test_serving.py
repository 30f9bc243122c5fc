"""What serves in the templates: functions, routes, front door and page, with every name as the code reads it."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from harness.stages import ROOT, SERVING, STAGES, Templates, functions, of_type, text_of
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
