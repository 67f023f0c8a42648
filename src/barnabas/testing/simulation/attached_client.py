"""Attach the core of any client to a simulation.

A core has no input and no output: it returns requests, and takes responses and failures, which
are Kafka's messages. The simulation delays and loses what is between it and the brokers.
"""

from typing import Any, Protocol

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.messages_base import Message
from barnabas.testing.simulation.data_clients import SimClient
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.runner import Simulation

_CLIENT_NUMBER = 5_000
_POLL_MS = 20
_TIMEOUT_MS = 10_000


class ClientCore(Protocol):
    """A client with one request in flight."""

    def next_request(self, metadata: MetadataImage) -> tuple[int, Message] | None:
        """Return a broker's id and the request for it; None when there is nothing to send.

        `metadata` may be old: it is that of a random broker that runs.
        """
        ...

    def on_response(self, response: Any) -> None:
        """The broker has answered the request."""
        ...

    def on_failure(self, failure: Failure) -> None:
        """The request has no response; its outcome is unknown, except when it was refused."""
        ...


class AttachedClient(SimClient):
    """Drives a `ClientCore` from the start of a simulation until `is_stopped`."""

    def __init__(self, simulation: Simulation, core: ClientCore) -> None:
        super().__init__(simulation.cluster, _CLIENT_NUMBER + len(simulation.actors))
        self._core = core
        simulation.actors.append(self)

    def start(self) -> None:
        """Begin to poll the core."""
        self.process.after_ms(_POLL_MS, self._poll)

    def stop(self) -> None:
        """Poll the core no longer."""
        self.is_stopped = True

    def check_end(self) -> None:
        """Check nothing: the core belongs to the test."""

    def _poll(self) -> None:
        metadata = None if self.is_stopped else self.image()
        polled = None if metadata is None else self._core.next_request(metadata)
        if polled is None:
            self.process.after_ms(_POLL_MS, self._poll)
            return
        broker_id, request = polled

        def answered(response: Any) -> None:
            self._core.on_response(response)
            self.process.after_ms(_POLL_MS, self._poll)

        def failed(failure: Failure) -> None:
            self._core.on_failure(failure)
            self.process.after_ms(_POLL_MS, self._poll)

        self.cluster.requests.ask(
            self.process, broker_id, "broker", request, answered, failed, timeout_ms=_TIMEOUT_MS
        )


def attach(simulation: Simulation, core: ClientCore) -> AttachedClient:
    """Add a client to a simulation that does not run yet."""
    return AttachedClient(simulation, core)
