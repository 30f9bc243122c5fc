"""The custom resource that migrates the database before any new code serves, and never deletes anything."""

from __future__ import annotations

from aws_cdk import CustomResource, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.bundle import ROOT, digest
from infra.database import Database
from infra.functions import Functions
from infra.settings import Stage

LONGEST = Duration.seconds(920)
"""How long CloudFormation waits for the deploy function's answer: a little beyond its time, not the hour that is the default."""


class Migrations(Construct):
    """`origin`: the secret that the front door adds to requests; `origin_digest`: its hash, for the authorizer."""

    def __init__(self, scope: Construct, name: str, stage: Stage, database: Database, functions: Functions) -> None:
        super().__init__(scope, name)
        self.first_login_name = f"tidemill/{stage.name}/first-login"
        self.first_login = secretsmanager.Secret(
            self,
            "FirstLogin",
            secret_name=self.first_login_name,
            description="email, password and API key of the first owner",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template=f'{{"email": "{stage.owner_email}"}}',
                generate_string_key="password",
                password_length=24,
                exclude_punctuation=True,
            ),
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.origin = self._front_door(stage.front_door)
        before = self._front_door(stage.front_door - 1) if stage.front_door > 1 else None
        deploy, migrator = functions.by_name["deploy"], functions.by_name["migrator"]
        assert database.master_secret is not None
        secrets: dict[str, secretsmanager.ISecret] = {
            "MASTER_SECRET": database.master_secret, "FIRST_LOGIN_SECRET": self.first_login, "ORIGIN_SECRET": self.origin
        }  # fmt: skip
        if before is not None:
            secrets["ORIGIN_SECRET_BEFORE"] = before
        for variable, secret in secrets.items():
            deploy.add_environment(variable, secret.secret_arn)
        deploy.add_environment("MIGRATOR", migrator.function_name)
        assert deploy.role is not None
        policy = iam.Policy(
            self,
            "DeployPolicy",
            roles=[deploy.role],
            statements=[
                iam.PolicyStatement(
                    actions=["secretsmanager:GetSecretValue"], resources=[secret.secret_arn for secret in secrets.values()]
                ),
                iam.PolicyStatement(actions=["secretsmanager:PutSecretValue"], resources=[self.first_login.secret_arn]),
                iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[migrator.function_arn]),
            ],
        )
        self.resource = CustomResource(
            self,
            "Schema",
            service_token=deploy.function_arn,
            resource_type="Custom::TidemillSchema",
            properties={"Stage": stage.name, "Migrations": digest([ROOT / "migrations"]), "FrontDoor": stage.front_door},
            service_timeout=LONGEST,
            removal_policy=RemovalPolicy.RETAIN,
        )
        self.resource.node.add_dependency(policy, migrator)
        self.origin_digest = self.resource.get_att_string("OriginDigest")

    def _front_door(self, number: int) -> secretsmanager.Secret:
        """The secret of this number. The one before is accepted too, so that CloudFront has time to bring the next one everywhere."""
        return secretsmanager.Secret(
            self,
            "Origin" if number == 1 else f"Origin{number}",
            description="the header by which the API knows its own front door",
            removal_policy=RemovalPolicy.DESTROY,
            generate_secret_string=secretsmanager.SecretStringGenerator(password_length=48, exclude_punctuation=True),
        )

    def come_first(self, functions: Functions) -> None:
        """No function serves before the schema is the one it knows."""
        for name, function in functions.by_name.items():
            if name not in ("deploy", "migrator"):
                bare = function.node.default_child
                assert isinstance(bare, lambda_.CfnFunction)
                bare.node.add_dependency(self.resource)
