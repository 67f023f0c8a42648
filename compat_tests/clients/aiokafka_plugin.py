"""A pytest plugin in place of aiokafka's own conftest.py, which starts a broker in Docker."""

import asyncio
import gc
import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    made.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class_serverless(
    request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop
) -> None:
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    host, _, port = os.environ["AIOKAFKA_ADDRESS"].rpartition(":")
    request.cls.loop = loop
    request.cls.kafka_host, request.cls.kafka_port = host, int(port)
    request.cls.hosts = [f"{host}:{port}"]
    request.cls.kafka_version = os.environ["AIOKAFKA_BROKER_VERSION"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("ssl"):
            item.add_marker(pytest.mark.skip(reason="the brokers have no TLS listener"))
