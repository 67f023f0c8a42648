"""A node for the tests of a module, and its admin client."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.testing import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


@pytest.fixture(scope="module")
def admin(node: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap})
