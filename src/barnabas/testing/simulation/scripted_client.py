"""Clients of the simulation that are generators: they yield requests and get the responses."""

from collections.abc import Generator
from typing import Any, Final

import attrs

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.simulation.data_clients import SimClient
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.sim_cluster import SimCluster

_TIMEOUT_MS: Final = 8_000


@attrs.frozen(slots=True)
class Send:
    """A request to a broker; the script gets the response, or NETWORK_EXCEPTION is raised."""

    to: int
    request: Any


@attrs.frozen(slots=True)
class Sleep:
    """A pause in ms."""

    ms: float


Script = Generator[Send | Sleep, Any, Any]


class ScriptedClient(SimClient):
    """Runs `script` from `start` until it returns."""

    is_idle = False

    def __init__(self, cluster: SimCluster, number: int) -> None:
        super().__init__(cluster, number)
        self.random = cluster.world.stream(f"client {number}")

    def script(self) -> Script:
        """Yield requests; KafkaError is raised where a request failed."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin the script."""
        self._script = self.script()
        self.process.after_ms(self.random.randrange(1_000), self._send, None)

    def stop(self) -> None:
        """Let the script end."""
        self.is_stopped = True

    def check_end(self) -> None:
        """Check nothing."""

    def _send(self, response: Any) -> None:
        try:
            if isinstance(response, KafkaError):
                step = self._script.throw(response)
            else:
                step = self._script.send(response)
        except StopIteration:
            self.is_idle = True
            return
        if isinstance(step, Sleep):
            self.process.after_ms(step.ms, self._send, None)
            return

        def failed(_: Failure) -> None:
            self._send(KafkaError(ErrorCode.NETWORK_EXCEPTION))

        self.cluster.network.ask(
            self.process,
            step.to,
            "broker",
            step.request,
            self._send,
            failed,
            timeout_ms=_TIMEOUT_MS,
        )
