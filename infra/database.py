"""Postgres: an RDS instance or an Aurora cluster, with a proxy if wished; private, encrypted, TLS only, logins by IAM."""

from __future__ import annotations

from aws_cdk import Aws, Duration, Fn, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_rds as rds
from constructs import Construct

from infra.log_groups import log_group
from infra.network import POSTGRES, Network
from infra.settings import Stage

NAME = "tidemill"
MASTER = "postgres"
_PARAMETERS = {
    "rds.force_ssl": "1",
    "log_min_duration_statement": "1000",
    "log_parameter_max_length": "0",  # a slow statement is logged without its values: they are payloads and hashes
    "log_error_verbosity": "terse",  # nor does an error name the row that broke a rule
    "idle_in_transaction_session_timeout": "60000",
    "random_page_cost": "1.1",
}
_INSTANCE_PARAMETERS = {**_PARAMETERS, "log_connections": "authorization"}  # RDS refuses "1" for version 18
_CLUSTER_PARAMETERS = {**_PARAMETERS, "log_connections": "1"}


class Database(Construct):
    """`endpoint`: of the database itself. `functions_endpoint`: what the Lambdas connect to, the proxy if there is one."""

    def __init__(self, scope: Construct, name: str, stage: Stage, network: Network) -> None:
        super().__init__(scope, name)
        made = self._cluster(stage, network) if stage.is_aurora else self._instance(stage, network)
        # RDS would make this group by itself and keep its lines for ever. The database's name is ours so that the group's can be.
        kind = "cluster" if stage.is_aurora else "instance"
        made.node.add_dependency(log_group(self, "Log", stage, f"/aws/rds/{kind}/{_name(stage)}/postgresql"))
        self.master_secret = made.secret
        if isinstance(made, rds.DatabaseCluster):
            self.endpoint, self.id, self.resource_id = (
                made.cluster_endpoint.hostname,
                made.cluster_identifier,
                made.cluster_resource_identifier,
            )
            self.dimensions = {"DBClusterIdentifier": self.id}
        else:
            assert made.instance_resource_id is not None
            self.endpoint, self.id, self.resource_id = (
                made.db_instance_endpoint_address,
                made.instance_identifier,
                made.instance_resource_id,
            )
            self.dimensions = {"DBInstanceIdentifier": self.id}
        self.functions_endpoint, self.functions_resource_id = self.endpoint, self.resource_id
        if stage.proxy:
            self._proxy(made, network)

    def login_arn(self, role: str, *, through_proxy: bool) -> str:
        """What a role may `rds-db:connect` to: this database, as this database role, and no other."""
        resource = self.functions_resource_id if through_proxy else self.resource_id
        return f"arn:aws:rds-db:{Aws.REGION}:{Aws.ACCOUNT_ID}:dbuser:{resource}/tidemill_{role}"

    def _instance(self, stage: Stage, network: Network) -> rds.DatabaseInstance:
        engine = rds.DatabaseInstanceEngine.postgres(version=rds.PostgresEngineVersion.VER_18)
        return rds.DatabaseInstance(
            self,
            "Instance",
            instance_identifier=_name(stage),
            engine=engine,
            instance_type=ec2.InstanceType(stage.instance_class),
            vpc=network.vpc,
            vpc_subnets=network.inside,
            security_groups=[network.database],
            database_name=NAME,
            credentials=rds.Credentials.from_username(MASTER),
            manage_master_user_password=True,
            iam_authentication=True,
            multi_az=stage.multi_az,
            allocated_storage=stage.storage_gb,
            max_allocated_storage=stage.storage_gb * 5,
            storage_type=rds.StorageType.GP3,
            storage_encrypted=True,
            backup_retention=Duration.days(stage.backup_days),
            copy_tags_to_snapshot=True,
            delete_automated_backups=False,
            deletion_protection=stage.protected,
            removal_policy=RemovalPolicy.SNAPSHOT,
            publicly_accessible=False,
            auto_minor_version_upgrade=True,
            enable_performance_insights=True,
            ca_certificate=rds.CaCertificate.RDS_CA_RSA2048_G1,
            cloudwatch_logs_exports=["postgresql"],
            parameter_group=rds.ParameterGroup(self, "Parameters", engine=engine, parameters=_INSTANCE_PARAMETERS),
        )

    def _cluster(self, stage: Stage, network: Network) -> rds.DatabaseCluster:
        engine = rds.DatabaseClusterEngine.aurora_postgres(version=rds.AuroraPostgresEngineVersion.VER_17_7)
        reader = [rds.ClusterInstance.serverless_v2("Second", scale_with_writer=True)] if stage.multi_az else []
        return rds.DatabaseCluster(
            self,
            "Cluster",
            cluster_identifier=_name(stage),
            engine=engine,
            vpc=network.vpc,
            vpc_subnets=network.inside,
            security_groups=[network.database],
            writer=rds.ClusterInstance.serverless_v2("Writer", enable_performance_insights=True),
            readers=reader,
            serverless_v2_min_capacity=stage.aurora_min_acu,
            serverless_v2_max_capacity=stage.aurora_max_acu,
            default_database_name=NAME,
            credentials=rds.Credentials.from_username(MASTER),
            manage_master_user_password=True,
            iam_authentication=True,
            storage_encrypted=True,
            backup=rds.BackupProps(retention=Duration.days(stage.backup_days)),
            copy_tags_to_snapshot=True,
            deletion_protection=stage.protected,
            removal_policy=RemovalPolicy.SNAPSHOT,
            cloudwatch_logs_exports=["postgresql"],
            parameter_group=rds.ParameterGroup(self, "Parameters", engine=engine, parameters=_CLUSTER_PARAMETERS),
        )

    def _proxy(self, made: rds.DatabaseInstance | rds.DatabaseCluster, network: Network) -> None:
        target = rds.ProxyTarget.from_cluster(made) if isinstance(made, rds.DatabaseCluster) else rds.ProxyTarget.from_instance(made)
        role = iam.Role(self, "ProxyRole", assumed_by=iam.ServicePrincipal("rds.amazonaws.com"))
        logins = [self.login_arn(role_name, through_proxy=False) for role_name in ("enqueue", "claims", "admin", "authorizer", "scheduler")]
        role.add_to_policy(iam.PolicyStatement(actions=["rds-db:connect"], resources=logins))
        assert network.proxy is not None
        proxy = rds.DatabaseProxy(
            self,
            "Proxy",
            proxy_target=target,
            vpc=network.vpc,
            vpc_subnets=network.inside,
            security_groups=[network.proxy],
            role=role,
            default_auth_scheme=rds.DefaultAuthScheme.IAM_AUTH,
            require_tls=True,
            max_connections_percent=60,
            borrow_timeout=Duration.seconds(5),
        )
        self.functions_endpoint = proxy.endpoint
        self.functions_resource_id = Fn.select(6, Fn.split(":", proxy.db_proxy_arn))


def _name(stage: Stage) -> str:
    return f"tidemill-{stage.name}"


def url(host: str, role: str | None) -> str:
    """The connection string of a process that is this database role; its password is a signed token, or comes with the call."""
    return f"postgresql://{f'tidemill_{role}@' if role else ''}{host}:{POSTGRES}/{NAME}"
