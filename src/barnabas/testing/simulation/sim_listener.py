"""A listener of a simulated node: frames from streams to the server's dispatcher, and back."""

from inspect import iscoroutine
from struct import Struct
from time import monotonic
from typing import Any, Final

import trio

from barnabas.protocol.errors import ProtocolError
from barnabas.server.api.context import AnyContext
from barnabas.server.api.dispatch import Dispatcher
from barnabas.server.api.embedded_requests import EmbeddedPeer
from barnabas.testing.simulation.sim_streams import SimStream
from barnabas.testing.simulation.world import Process

_LENGTH: Final = Struct(">i")


class SimListener:
    """Answers the requests of each connection one after the other."""

    def __init__(self, process: Process, dispatcher: Dispatcher, name: str) -> None:
        self._process = process
        self._dispatcher = dispatcher
        self._name = name

    def accept(self, stream: SimStream) -> None:
        """Serve a new connection."""
        self._process.tasks.spawn_system_task(self._serve, (stream,))

    async def _serve(self, stream: SimStream) -> None:
        host = f"node-{stream.peer.process.node_id}"
        peer = EmbeddedPeer("User:ANONYMOUS", host, self._name)
        received = bytearray()
        try:
            while True:
                while (frame := _frame(received)) is None:
                    data = await stream.receive_some()
                    if not data:
                        return
                    received += data
                context = self._dispatcher.decode(peer, frame)
                await stream.send_all(await self._answer(context))
        except (trio.BrokenResourceError, ProtocolError):
            return
        finally:
            await stream.aclose()

    async def _answer(self, context: AnyContext) -> bytes:
        try:
            context.started_at = monotonic()
            response: Any = context.route.handler(context, context.request)
            if iscoroutine(response):
                response = await response
        except Exception as error:
            response = error
        return b"".join(self._dispatcher.encode(context, response))


def _frame(received: bytearray) -> bytearray | None:
    """Take a whole frame from the front, without its length; None when there is none."""
    if len(received) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
    if len(received) < end:
        return None
    frame = received[_LENGTH.size : end]
    del received[:end]
    return frame
