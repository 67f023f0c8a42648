"""Fixtures for pytest: nodes that all tests of a session share.

A `conftest.py` gets them with `pytest_plugins = ["barnabas.testing.pytest_plugin"]`.
"""

from collections.abc import Iterator

import pytest

from barnabas.testing.embedded_node import Node
from barnabas.testing.node_security import Security


@pytest.fixture(scope="session")
def barnabas_node() -> Iterator[Node]:
    """A node for all tests of the session."""
    with Node() as node:
        yield node


@pytest.fixture(scope="session")
def barnabas_secured_node() -> Iterator[Node]:
    """A node with TLS, SCRAM and ACLs, whose administrator is `admin`."""
    with Node(security=Security()) as node:
        yield node
