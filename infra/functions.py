"""The Lambdas: one code asset, one layer, each with its own IAM role, database role, log group and nothing else."""

from __future__ import annotations

from typing import Any

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import bundle
from infra.database import Database, url
from infra.log_groups import log_group
from infra.network import Network
from infra.settings import Stage
from infra.specs import INTERFACES, SPECS, Spec

CA_FILE = "/var/task/tidemill/store/rds-ca.pem"


class Functions(Construct):
    """`by_name`: enqueue, claims, admin, authorizer, scheduler, courier, migrator, deploy."""

    def __init__(self, scope: Construct, name: str, stage: Stage, network: Network, database: Database) -> None:
        super().__init__(scope, name)
        self._stage, self._network, self._database = stage, network, database
        layer = bundle.layer()
        self._layer = lambda_.LayerVersion(
            self,
            "Dependencies",
            code=lambda_.Code.from_asset(str(layer), asset_hash=layer.name.rpartition("-")[2]),
            compatible_architectures=[lambda_.Architecture.ARM_64],
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            removal_policy=RemovalPolicy.DESTROY,
            description="what requirements/runtime.lock names",
        )
        code = bundle.code()
        self._code = lambda_.Code.from_asset(str(code), asset_hash=code.name.rpartition("-")[2])
        self.by_name = {each: self._function(each, spec) for each, spec in SPECS.items()}

    def _function(self, name: str, spec: Spec) -> lambda_.Function:
        stage, database = self._stage, self._database
        role = iam.Role(self, f"{name.title()}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        group = log_group(self, f"{name.title()}Log", stage, name)
        group.grant_write(role)
        where: dict[str, Any] = {}
        if spec.in_vpc:
            where = {"vpc": self._network.vpc, "vpc_subnets": self._network.inside, "security_groups": [self._network.functions]}
            role.add_managed_policy(iam.ManagedPolicy.from_aws_managed_policy_name("service-role/AWSLambdaENIManagementAccess"))
            role.add_to_policy(_interfaces_are_not_for_code(f"tidemill-{stage.name}-{name}"))
        environment = {"TIDEMILL_STAGE": stage.name, "POWERTOOLS_SERVICE_NAME": name}
        if name == "migrator":
            environment |= {"TIDEMILL_DATABASE_URL": url(database.endpoint, None), "TIDEMILL_DATABASE_CA_FILE": CA_FILE}
        elif spec.in_vpc:
            environment |= {
                "TIDEMILL_DATABASE_URL": url(database.functions_endpoint, name),
                "TIDEMILL_DATABASE_AUTH": "iam",
                "TIDEMILL_DATABASE_CA_FILE": CA_FILE,
            }
            role.add_to_policy(
                iam.PolicyStatement(actions=["rds-db:connect"], resources=[database.login_arn(name, through_proxy=stage.proxy)])
            )
            environment["TIDEMILL_TRUSTED_PROXIES"] = "1"  # CloudFront
        if name == "scheduler":
            environment["TIDEMILL_TICK_BUDGET_MS"] = str(stage.tick_budget_ms)
        reserved = getattr(stage, f"{name}_concurrency", None) if stage.reserve_concurrency else None
        return lambda_.Function(
            self,
            name.title(),
            function_name=f"tidemill-{stage.name}-{name}",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            handler=f"{name}.handler.handler",
            code=self._code,
            layers=[self._layer],
            role=role,
            timeout=Duration.seconds(spec.timeout_secs),
            memory_size=spec.memory_mb or stage.memory_mb,
            environment=environment,
            log_group=group,
            logging_format=lambda_.LoggingFormat.JSON,
            reserved_concurrent_executions=reserved,
            description=f"tidemill {stage.name}: {name}",
            **where,
        )


def _interfaces_are_not_for_code(function: str) -> iam.PolicyStatement:
    """Lambda itself makes the network interfaces, by the function's role; what runs inside the function must not."""
    return iam.PolicyStatement(
        effect=iam.Effect.DENY,
        actions=[f"ec2:{action}" for action in INTERFACES],
        resources=["*"],
        conditions={"ArnEquals": {"lambda:SourceFunctionArn": f"arn:aws:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function:{function}"}},
    )
