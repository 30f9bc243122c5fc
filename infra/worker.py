"""The workers: a Fargate service that runs the team's handlers, as many as there is work for, down to none."""

from __future__ import annotations

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_ecr_assets as images
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra import bundle, metrics
from infra.database import Database, url
from infra.log_groups import log_group
from infra.network import Network
from infra.settings import Stage

CA_FILE = "/app/functions/tidemill/store/rds-ca.pem"
STOP_SECS = 120
"""The most that ECS gives a task between SIGTERM and SIGKILL."""
HEALTH_FILE = "/tmp/healthy"  # noqa: S108 - a volume of the task's own
_HEALTHY = f"import os, sys, time; sys.exit(time.time() - os.stat('{HEALTH_FILE}').st_mtime > 60)"


class Worker(Construct):
    """Claims straight from the database as the role tidemill_worker; no API key lies in the task."""

    def __init__(self, scope: Construct, name: str, stage: Stage, network: Network, database: Database) -> None:
        super().__init__(scope, name)
        cluster = ecs.Cluster(
            self, "Cluster", cluster_name=f"tidemill-{stage.name}", vpc=network.vpc, enable_fargate_capacity_providers=True
        )
        tasks_of_ours = {
            "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
            "ArnLike": {"aws:SourceArn": f"arn:aws:ecs:{Aws.REGION}:{Aws.ACCOUNT_ID}:*"},
        }
        role = iam.Role(self, "TaskRole", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com", conditions=tasks_of_ours))
        role.add_to_policy(iam.PolicyStatement(actions=["rds-db:connect"], resources=[database.login_arn("worker", through_proxy=False)]))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["ecs:GetTaskProtection", "ecs:UpdateTaskProtection"],
                resources=[f"arn:aws:ecs:{Aws.REGION}:{Aws.ACCOUNT_ID}:task/tidemill-{stage.name}/*"],
            )
        )
        task = ecs.FargateTaskDefinition(
            self,
            "Task",
            family=f"tidemill-{stage.name}-worker",
            cpu=stage.worker_cpu,
            memory_limit_mib=stage.worker_memory_mb,
            task_role=role,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.ARM64, operating_system_family=ecs.OperatingSystemFamily.LINUX
            ),
            volumes=[ecs.Volume(name="tmp")],
        )
        image = ecs.ContainerImage.from_asset(str(bundle.worker(stage.handlers)), platform=images.Platform.LINUX_ARM64)
        linux = ecs.LinuxParameters(self, "Linux", init_process_enabled=True)
        linux.drop_capabilities(ecs.Capability.ALL)
        container = task.add_container(
            "worker",
            image=image,
            readonly_root_filesystem=True,
            stop_timeout=Duration.seconds(STOP_SECS),
            linux_parameters=linux,
            user="10001:10001",
            command=[
                stage.app,
                "--queues",
                stage.worker_queues,
                "--concurrency",
                str(stage.worker_jobs),
                "--stop-window-secs",
                str(STOP_SECS - 10),
                "--health-file",
                HEALTH_FILE,
            ],
            environment={
                "TIDEMILL_STAGE": stage.name,
                "TIDEMILL_DATABASE_URL": url(database.endpoint, "worker"),
                "TIDEMILL_DATABASE_AUTH": "iam",
                "TIDEMILL_DATABASE_CA_FILE": CA_FILE,
                "TIDEMILL_PROTECTION_MINUTES": str(round(stage.protection_hours * 60)),
            },
            health_check=ecs.HealthCheck(
                command=["CMD", "python3", "-c", _HEALTHY], interval=Duration.seconds(30), start_period=Duration.seconds(60)
            ),
            logging=ecs.LogDrivers.aws_logs(stream_prefix="worker", log_group=log_group(self, "Log", stage, "worker")),
        )
        container.add_mount_points(ecs.MountPoint(container_path="/tmp", source_volume="tmp", read_only=False))  # noqa: S108 - its mount
        spot = stage.worker_spot_percent
        shares = {"FARGATE": 100 - spot, "FARGATE_SPOT": spot}
        self.service = ecs.FargateService(
            self,
            "Service",
            cluster=cluster,
            task_definition=task,
            service_name="worker",
            # Left out where it scales: a number here would be set anew by every deploy, whatever the backlog is.
            desired_count=stage.worker_min if stage.worker_min == stage.worker_max else None,
            security_groups=[network.workers],
            vpc_subnets=network.worker_subnets,
            assign_public_ip=stage.network == "public",
            capacity_provider_strategies=[ecs.CapacityProviderStrategy(capacity_provider=p, weight=w) for p, w in shares.items() if w],
            min_healthy_percent=0 if stage.worker_max == 1 else 50,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
            enable_ecs_managed_tags=True,
        )
        self.service.apply_removal_policy(RemovalPolicy.DESTROY)
        self._scale(stage)

    def _scale(self, stage: Stage) -> None:
        """As many workers as the jobs that are queued or running need, to the number exactly, so that none is reached and left."""
        count = self.service.auto_scale_task_count(min_capacity=stage.worker_min, max_capacity=stage.worker_max)
        steps = [
            scaling.ScalingInterval(upper=0.5, change=stage.worker_min),
            scaling.ScalingInterval(lower=0.5, change=max(1, stage.worker_min)),
        ]
        sizes = [size for size in (2, 4, 8, 16, 32, 64) if stage.worker_min < size < stage.worker_max] + [stage.worker_max]
        steps += [scaling.ScalingInterval(lower=(size - 1) * stage.worker_jobs * 2, change=size) for size in sizes if size > 1]
        if stage.worker_min == stage.worker_max:
            return
        count.scale_on_metric(
            "Backlog",
            metric=metrics.of(stage, "Backlog"),
            scaling_steps=steps,
            adjustment_type=scaling.AdjustmentType.EXACT_CAPACITY,
            cooldown=Duration.minutes(2),
            evaluation_periods=1,
            metric_aggregation_type=scaling.MetricAggregationType.MAXIMUM,
        )
