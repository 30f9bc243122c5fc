"""Fixtures: gateway = all handlers over the test's own database; log = what they have logged.

shared_gateway, shared_log: those of the module, for the many cases that are refused, or read alone, and so leave nothing behind.
"""

import io
import logging
from collections.abc import Iterator
from contextlib import closing

import pytest
from aws_lambda_powertools import Logger

from api.gateway import Gateway
from harness.databases import Databases


def logged(dsn: str, log: io.StringIO) -> Gateway:
    return Gateway(dsn, log=Logger(service=f"test-{id(log)}", stream=log, level=logging.DEBUG))


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def gateway(database: str, log: io.StringIO) -> Iterator[Gateway]:
    with closing(logged(database, log)) as made:
        yield made


@pytest.fixture(scope="module")
def shared_log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def shared_gateway(databases: Databases, shared_log: io.StringIO) -> Iterator[Gateway]:
    with closing(logged(databases.clone(), shared_log)) as made:
        yield made
    databases.drop(made.dsn)
