"""Requests of simulated clients to the active controller, which may change."""

import random
from collections.abc import Callable
from typing import Any, Final

from barnabas.cluster.controller.controller import ControllerRequest
from barnabas.protocol.errors import KafkaError
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.world import Process

_TIMEOUT_MS: Final = 5_000


class ControllerClient:
    """Sends requests to the last known controller, or to a random one."""

    def __init__(self, cluster: SimCluster, process: Process, random: random.Random) -> None:
        self._cluster = cluster
        self._process = process
        self._random = random
        self._known: int | None = None

    def submit(self, request: ControllerRequest, version: int, done: Callable[[Any], None]) -> None:
        """Send a request; `done` gets the response, or None when the outcome is unknown.

        A controller that lost its leadership does not know if the records are committed.
        """
        to = self._known
        if to is None:
            to = self._random.choice(self._cluster.controller_ids)

        def answered(outcome: Any) -> None:
            self._known = None if isinstance(outcome, KafkaError) else to
            done(None if isinstance(outcome, KafkaError) else outcome)

        def failed(_: Failure) -> None:
            self._known = None
            done(None)

        self._cluster.network.ask(
            self._process, to, "controller", (request, version), answered, failed,
            timeout_ms=_TIMEOUT_MS,
        )  # fmt: skip
