"""The stack that holds data: network, database, proxy. Changes rarely and is never deleted by accident."""

from __future__ import annotations

from typing import Any

from aws_cdk import Stack
from constructs import Construct

from infra.database import Database
from infra.network import Network
from infra.settings import Stage


class Stateful(Stack):
    """Security groups live here too: in the other stack they and the database would wait for each other."""

    def __init__(self, scope: Construct, stage: Stage, **about: Any) -> None:
        super().__init__(
            scope,
            f"Tidemill-{stage.name}-Stateful",
            termination_protection=stage.protected,
            description=f"tidemill {stage.name}: network and database",
            **about,
        )
        self.network = Network(self, "Network", stage)
        self.database = Database(self, "Database", stage, self.network)
