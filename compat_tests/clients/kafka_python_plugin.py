"""A pytest plugin for kafka-python's own tests, outside of their repository.

The source distribution has the tests without the modules `test/__init__.py` and `test/service.py`,
so `import test` would find the one of Python. Topics of the tests get three replicas, and their
consumers wait for the metadata of their topics (`kafka_python_consumer` says why).
"""

import functools
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import kafka

from compat_tests.clients.kafka_python_consumer import ConsumerOfKnownTopics


class ExternalService:
    """A broker that the tests did not start."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port


class SpawnedService:
    """A broker that the tests start; the fixtures import the name."""


def pytest_load_initial_conftests() -> None:
    package = ModuleType("test")
    package.__path__ = [str(Path.cwd() / "test")]
    service: Any = ModuleType("test.service")
    service.ExternalService, service.SpawnedService = ExternalService, SpawnedService
    sys.modules |= {"test": package, "test.service": service}
    fixture: Any = importlib.import_module("test.integration.fixtures").KafkaFixture
    fixture.instance = functools.partial(fixture.instance, replicas=3)
    kafka.KafkaConsumer = ConsumerOfKnownTopics  # before the tests' conftest imports it
