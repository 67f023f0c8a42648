"""The clients that a process keeps are closed after each test, which must leave no other client."""

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from barnabas.testing.eventually import wait_until
from tests.pipeline.kept_clients import close_kept_clients


@pytest.fixture(autouse=True)
def _kept_clients() -> Iterator[None]:
    before = kafka_clients()
    yield
    close_kept_clients()
    if kafka_clients() - before:
        wait_until(lambda: not _kept(before))


def _kept(before: set[str]) -> set[str]:
    """Return the clients that a test has left, without those that nothing refers to.

    An exception that the test, or a thread that is about to end, has kept refers to its frames.
    """
    gc.collect()
    return kafka_clients() - before


@pytest.fixture
def fenced_clients(_kept_clients: None) -> Iterator[None]:
    """Close the clients of a test in which an exception is raised while another one is handled.

    confluent-kafka 2.16 never frees the error of a KafkaException. Raised while another exception
    is handled, the error refers to it, and so to the frames that have the clients.
    """
    yield
    for each in gc.get_objects():
        if type(each) in (Consumer, Producer):
            with contextlib.suppress(KafkaException, RuntimeError, SystemError):  # closed, fenced
                each.close()


def kafka_clients() -> set[str]:
    """Return the main threads of librdkafka's clients in this process; none without /proc."""
    found: set[str] = set()
    for task in Path("/proc/self/task").glob("*"):
        with contextlib.suppress(OSError):  # it has just ended
            if (task / "comm").read_text().startswith("rdk:main"):
                found.add(task.name)
    return found
