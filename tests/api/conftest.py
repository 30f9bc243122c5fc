"""Fixtures: gateway = all handlers over the test's own database; log = what they have logged."""

import io
import logging
from collections.abc import Iterator

import pytest
from aws_lambda_powertools import Logger

from api.gateway import Gateway


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def gateway(database: str, log: io.StringIO) -> Iterator[Gateway]:
    logger = Logger(service=f"test-{id(log)}", stream=log, level=logging.DEBUG)
    made = Gateway(database, log=logger)
    yield made
    made.close()
