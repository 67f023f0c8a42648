"""A client that connects while a node starts waits until the node has the ACLs."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
import trio

from barnabas.config import NodeConfig
from barnabas.server.node.node import Node as ServerNode
from barnabas.testing import Node, embedded_node
from tests.server.test_authorized_node import (
    CLIENT,
    NO_ACCESS,
    OPEN_UNTIL_ACLS,
    create_topic,
    leave_rights_to_the_administrator,
)


def test_client_that_connects_during_a_start_waits_for_the_acls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without an ACL of the resource everyone may do everything here: an early answer shows."""
    answers: list[int] = []
    asking: list[threading.Thread] = []
    early: list[int] = []

    async def connect(node: ServerNode) -> None:
        bootstrap = f"127.0.0.1:{node.bound_port('PLAINTEXT')}"
        thread = threading.Thread(
            target=lambda: answers.append(create_topic(bootstrap, "early", CLIENT))
        )
        thread.start()
        asking.append(thread)
        await trio.sleep(0.5)
        early.extend(answers)

    def with_client(config: NodeConfig, preparations: Sequence[Any]) -> ServerNode:
        return ServerNode(config, preparations=[*preparations, connect])

    with Node(config=OPEN_UNTIL_ACLS) as node:
        assert create_topic(node.bootstrap, "first", CLIENT) == 0
        leave_rights_to_the_administrator(node.bootstrap)
        node.stop()
        monkeypatch.setattr(embedded_node, "ServerNode", with_client)
        with Node(node.data, OPEN_UNTIL_ACLS):
            asking[0].join(60)
            assert (early, answers) == ([], [NO_ACCESS])
