"""Where everything lives: two zones, the database and the Lambdas without a way out, workers as the setting says."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.settings import Stage

POSTGRES = 5432


class Network(Construct):
    """The VPC, and security groups that name each other: nothing else reaches the database."""

    def __init__(self, scope: Construct, name: str, stage: Stage) -> None:
        super().__init__(scope, name)
        subnets = [ec2.SubnetConfiguration(name="inside", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=22)]
        if stage.network in ("public", "nat"):
            subnets.append(
                ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=24, map_public_ip_on_launch=False)
            )
        if stage.network == "nat":
            subnets.append(ec2.SubnetConfiguration(name="workers", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=24))
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            nat_gateways=1 if stage.network == "nat" else 0,
            subnet_configuration=subnets,
            ip_addresses=ec2.IpAddresses.cidr("10.42.0.0/16"),
            restrict_default_security_group=False,
        )
        self.inside = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
        if stage.network == "endpoints":
            self._endpoints()
        if stage.flow_logs:
            group = logs.LogGroup(self, "FlowLog", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY)
            self.vpc.add_flow_log(
                "Flow", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group), traffic_type=ec2.FlowLogTrafficType.REJECT
            )

        def security_group(name: str, text: str, *, out: bool) -> ec2.SecurityGroup:
            return ec2.SecurityGroup(self, name, vpc=self.vpc, description=text, allow_all_outbound=out)

        self.database = security_group("DatabaseGroup", "tidemill: the database", out=False)
        self.functions = security_group("FunctionsGroup", "tidemill: Lambdas, which reach the database and nothing else", out=False)
        self.workers = security_group("WorkersGroup", "tidemill: workers, which reach the database, AWS and what your jobs call", out=True)
        self.proxy = security_group("ProxyGroup", "tidemill: the proxy", out=False) if stage.proxy else None
        port = ec2.Port.tcp(POSTGRES)
        self.functions.connections.allow_to(self.database, port, "to the database")
        self.workers.connections.allow_to(self.database, port, "to the database")
        if self.proxy is not None:
            self.functions.connections.allow_to(self.proxy, port, "to the proxy")
            self.proxy.connections.allow_to(self.database, port, "to the database")
        self.worker_subnets = self._worker_subnets(stage)

    def _endpoints(self) -> None:
        services = ec2.InterfaceVpcEndpointAwsService
        for name, service in {"Images": services.ECR, "Layers": services.ECR_DOCKER, "Logs": services.CLOUDWATCH_LOGS}.items():
            self.vpc.add_interface_endpoint(name, service=service, subnets=self.inside)
        self.vpc.add_gateway_endpoint("Objects", service=ec2.GatewayVpcEndpointAwsService.S3)

    def _worker_subnets(self, stage: Stage) -> ec2.SubnetSelection:
        kinds = {
            "public": ec2.SubnetType.PUBLIC,
            "nat": ec2.SubnetType.PRIVATE_WITH_EGRESS,
            "endpoints": ec2.SubnetType.PRIVATE_ISOLATED,
        }
        return ec2.SubnetSelection(subnet_type=kinds[stage.network])
