"""Requests of simulated clients to the active controller, which may change.

A client sends them to controllers, or to brokers, which forward them.
"""

import random
from collections.abc import Callable
from typing import Any, Final

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages_base import Message
from barnabas.testing.simulation.fatal_errors import error_codes
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.world import Process

TIMEOUT_MS: Final = 5_000
_UNKNOWN_OUTCOMES: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})
"""A controller that lost its leadership does not know if the records are committed."""


class ControllerClient:
    """Sends requests to the last node that has answered, or to a random one.

    A broker may send a request to the controller long after its client has given up. A client whose
    operations must take effect in their order is not `may_use_brokers`.
    """

    def __init__(
        self,
        cluster: SimCluster,
        process: Process,
        random: random.Random,
        *,
        may_use_brokers: bool = True,
    ) -> None:
        self._cluster = cluster
        self._process = process
        self._random = random
        self.uses_brokers = may_use_brokers and random.random() < 0.5
        self._known: int | None = None

    def submit(self, request: Message, done: Callable[[Any], None]) -> None:
        """Send a request; `done` gets the response, or None when the outcome is unknown."""
        to = self._known
        if to is None:
            to = self._random.choice(self._candidates())

        def answered(response: Message) -> None:
            is_unknown = not _UNKNOWN_OUTCOMES.isdisjoint(error_codes(response))
            self._known = None if is_unknown else to
            done(None if is_unknown else response)

        def failed(_: Failure) -> None:
            self._known = None
            done(None)

        self._cluster.requests.ask(
            self._process,
            to,
            "broker" if self.uses_brokers else "controller",
            request,
            answered,
            failed,
            timeout_ms=TIMEOUT_MS,
        )

    def _candidates(self) -> list[int]:
        if not self.uses_brokers:
            return self._cluster.controller_ids
        return [node_id for node_id, node in self._cluster.nodes.items() if node.is_broker]


def final_images(cluster: SimCluster) -> list[MetadataImage]:
    """Return the image of every node, after a rest."""
    images = {node_id: node.committed_image for node_id, node in cluster.nodes.items()}
    missing = [node_id for node_id, image in images.items() if image is None]
    require(not missing, "LIVENESS", f"the nodes {missing} have no metadata")
    return [image for image in images.values() if image is not None]
