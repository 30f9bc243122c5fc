"""The stack that runs: API, Lambdas, scheduler, workers, front door, alarms. It can be deleted and made anew; the jobs stay."""

from __future__ import annotations

from typing import Any

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.alarms import Alarms
from infra.courier import Courier
from infra.dashboard import Dashboard
from infra.edge import Edge
from infra.functions import Functions
from infra.http_api import HttpApi
from infra.migrations import Migrations
from infra.scheduler import Scheduler
from infra.settings import Stage
from infra.stateful import Stateful
from infra.web_acl import Firewall, WebAcl
from infra.worker import Worker


class Service(Stack):
    """One construct per part, each in a file of its own."""

    def __init__(self, scope: Construct, stage: Stage, stateful: Stateful, firewall: Firewall | None = None, **about: Any) -> None:
        super().__init__(
            scope,
            f"Tidemill-{stage.name}-Service",
            description=f"tidemill {stage.name}: everything but the data",
            cross_region_references=firewall is not None,
            **about,
        )
        network, database = stateful.network, stateful.database
        functions = Functions(self, "Functions", stage, network, database)
        migrations = Migrations(self, "Migrations", stage, database, functions)
        http_api = HttpApi(self, "HttpApi", stage, functions, migrations.origin_digest)
        migrations.come_first(functions)
        Scheduler(self, "Scheduler", stage, functions.by_name["scheduler"])
        Courier(self, "Courier", stage, functions)
        web_acl = firewall.web_acl if firewall else WebAcl(self, "WebAcl", stage) if stage.waf else None
        edge = Edge(self, "Edge", stage, http_api, migrations.origin, functions, web_acl.arn if web_acl else None)
        worker = Worker(self, "Worker", stage, network, database)
        worker.service.node.add_dependency(migrations.resource)
        alarms = Alarms(self, "Alarms", stage, database, functions, http_api)
        alarms.node.add_dependency(edge.distribution)  # minutes after the first tick, so that none of them begins with "missing"
        Dashboard(self, "Dashboard", stage, alarms, database, http_api)
        CfnOutput(self, "Url", value=f"https://{edge.address}", description="the page, and the API below /v1")
        CfnOutput(
            self,
            "FirstLogin",
            value=migrations.first_login_name,
            description="secret with the first owner's email, password and API key",
        )
