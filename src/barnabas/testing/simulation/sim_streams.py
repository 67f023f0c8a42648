"""Connections as streams of bytes between simulated processes, under the faults of a `Network`.

The bytes of one direction arrive in their order. Across a cut they are sent again after pauses that
double, as TCP does, so a connection can outlive a cut and stay silent for a while after it. A
process that is killed resets its connections; one that loses its power leaves them silent.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import trio

from barnabas import tasks
from barnabas.client.client_config import ClientConfig
from barnabas.client.failures import Address, BrokerRefusedError
from barnabas.client.outgoing_sockets import Sockets
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.sockets.file_ranges import Part
from barnabas.testing.simulation.network import Network
from barnabas.testing.simulation.world import Process, World

_FIRST_RETRY_US: Final = 200_000

Accept = Callable[["SimStream"], None]


class SimStream:
    """One end of a connection (`sockets.ByteStream`)."""

    def __init__(self, streams: "SimStreams", process: Process) -> None:
        self.process = process
        self.peer: SimStream
        self.is_broken = False
        self._streams = streams
        self._life = process.life
        self._received = bytearray()
        self._is_ended = False
        self._is_closed = False
        self._arrived = process.tasks.event()
        self._sending: deque[bytes] = deque()  # what the peer has not got yet; b"" is the end
        self._retry_us = _FIRST_RETRY_US

    @property
    def is_alive(self) -> bool:
        """True while the life of the process that opened this end runs."""
        return self.process.runs(self._life)

    async def send(self, parts: list[Part]) -> None:
        """Send all parts. Raises ConnectionResetError when the connection was reset."""
        self.send_now(parts)
        await tasks.checkpoint()

    def send_now(self, parts: list[Part]) -> list[Part]:
        """Send all parts: a simulated network accepts any number of bytes at once.

        Raises ConnectionResetError when the connection was reset.
        """
        self.process.effect()
        if self.is_broken or self._is_closed:
            raise ConnectionResetError
        self._send(b"".join(_bytes(part) for part in parts))
        return []

    def _send(self, data: bytes) -> None:
        self._sending.append(data)
        if len(self._sending) == 1:
            self._transmit()

    def _transmit(self) -> None:
        """Send what is next; again later while there is a cut."""
        streams, sender, receiver = self._streams, self.process.node_id, self.peer.process.node_id
        if streams.network.is_cut(sender, receiver):
            delay_us, self._retry_us = self._retry_us, 2 * self._retry_us
            streams.world.after(delay_us, self._transmit_again)
            return
        self._retry_us = _FIRST_RETRY_US
        streams.world.after(streams.delay_us(), self._deliver)

    def _transmit_again(self) -> None:
        if self._sending:
            self._transmit()

    def _deliver(self) -> None:
        if not self._sending:
            return
        peer = self.peer
        if not peer.is_alive:
            if peer.process.is_running:  # a later life of the process: its port answers a reset
                self.reset()
            return
        peer.process.call(peer._life, peer._take, (self._sending.popleft(),))
        if self._sending:
            self._transmit()
        if self._streams.world.chance(self._streams.network.reset_chance):
            self.reset()
            peer.reset()

    def _take(self, data: bytes) -> None:
        if self._is_closed:
            self.peer.reset()
            return
        self._received += data
        self._is_ended = self._is_ended or not data
        self._wake()

    def _wake(self) -> None:
        self._arrived.set()

    def receive_into(self, buffer: memoryview, /) -> int:
        """Receive what has arrived; return the number of bytes, 0 at the end.

        Raises BlockingIOError when nothing has arrived, ConnectionResetError after a reset.
        """
        count = min(len(self._received), len(buffer))
        if count:
            buffer[:count] = self._received[:count]
            del self._received[:count]
        elif not self._is_ended:
            raise ConnectionResetError if self.is_broken else BlockingIOError
        return count

    async def wait_readable(self) -> None:
        """Wait until something has arrived. Raises trio.ClosedResourceError when it is closed."""
        while not (self._received or self._is_ended or self.is_broken):
            if self._is_closed:
                raise trio.ClosedResourceError
            self._arrived = tasks.event()
            await self._arrived.wait()

    def limit_versions(self, response: ApiVersionsResponse) -> None:
        """Lower the versions of an answer to those of an older release at either end."""
        ends = self.process.node_id, self.peer.process.node_id
        for limits in (self._streams.releases.get(end, {}) for end in ends):
            for api in response.api_keys:
                api.max_version = min(api.max_version, limits.get(api.api_key, api.max_version))

    def reset(self) -> None:
        """The connection is reset, as this end sees it."""
        if not self.is_broken:
            self.is_broken = True
            self._sending.clear()
            self._received.clear()
            self.process.call(self._life, self._wake)

    @property
    def has_unsent(self) -> bool:
        """True while bytes of this end have not arrived."""
        return bool(self._sending)

    def close(self) -> None:
        """Close this end; the peer gets the end of the bytes, and a reset when it sends more."""
        if not self._is_closed:
            self._is_closed = True
            self._streams.forget(self)
            self._wake()
            if not self.is_broken:
                self._send(b"")


def _bytes(part: Part) -> bytes:
    """Return a part of what is sent; one that a log has read is in memory."""
    return part.data if hasattr(part, "data") else part


class SimStreams:
    """All listeners and connections of a simulated cluster."""

    def __init__(self, world: World, network: Network) -> None:
        self.network = network
        self.world = world
        self.releases: Mapping[int, Mapping[int, int]] = {}
        """The highest versions of the nodes that have an older release, by api key."""
        self._random = self.world.stream("streams")
        self._listeners: dict[Address, tuple[Process, int, Accept]] = {}
        self._open: dict[SimStream, None] = {}

    def delay_us(self) -> int:
        """Return the time that bytes take to the other node."""
        delays, random = self.network.delays, self._random
        if delays.tail_chance and random.random() < delays.tail_chance:
            return random.randrange(delays.high, max(delays.high + 1, delays.tail))
        return random.randrange(delays.low, delays.high)

    def listen(self, process: Process, address: Address, accept: Accept) -> None:
        """Pass connections to an address to a process, in its current life."""
        self._listeners[address] = process, process.life, accept

    def close_listeners(self, process: Process) -> None:
        """Refuse new connections to a process that stops."""
        for address in [each for each, found in self._listeners.items() if found[0] is process]:
            del self._listeners[address]

    def addresses_of(self, node_id: int) -> list[Address]:
        """Return where the process of a node listens now."""
        return [
            address
            for address, (process, life, _) in self._listeners.items()
            if process.node_id == node_id and process.runs(life)
        ]

    def process_died(self, process: Process, *, silently: bool) -> None:
        """End the connections of a dead process; the peers see a reset, or silence."""
        for stream in [each for each in self._open if each.process is process]:
            self.forget(stream)
            peer = stream.peer
            if not silently and not self.network.is_cut(process.node_id, peer.process.node_id):
                self.world.after(self.delay_us(), peer.reset)

    def reset_damaged(self) -> None:
        """Reset the connections on which bytes wait to be sent again, and those to dead processes.

        After the faults, no client has to wait for a time-out.
        """
        for stream in list(self._open):
            if stream.has_unsent or not stream.peer.is_alive:
                stream.reset()
                stream.peer.reset()

    def forget(self, stream: SimStream) -> None:
        """Forget an end that was closed."""
        self._open.pop(stream, None)

    async def connect(self, process: Process, address: Address) -> SimStream:
        """Connect to an address. Raises BrokerRefusedError; waits without end across a cut."""
        found = self._listeners.get(address)
        node_id = None if found is None else found[0].node_id
        network, own = self.network, process.node_id
        if node_id is not None and (network.is_cut(own, node_id) or network.is_cut(node_id, own)):
            await tasks.sleep_forever()
        await tasks.sleep(2 * self.delay_us() / 1e6)
        if found is None or not found[0].runs(found[1]):
            raise BrokerRefusedError(address, "Connection refused")
        receiver, life, accept = found
        near, far = SimStream(self, process), SimStream(self, receiver)
        near.peer, far.peer = far, near
        self._open |= {near: None, far: None}
        receiver.call(life, accept, (far,))
        return near


class SimSockets(Sockets):
    """The sockets of one simulated process."""

    def __init__(self, streams: SimStreams, process: Process) -> None:
        self._streams = streams
        self._process = process

    async def connect(self, address: Address, config: ClientConfig) -> SimStream:
        """Connect to a node of the simulation."""
        del config
        return await self._streams.connect(self._process, address)
