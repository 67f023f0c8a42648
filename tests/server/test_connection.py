"""Connections over real sockets, with a dispatcher whose requests are one word."""

import errno
import itertools
import os
import socket
import struct
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from barnabas.cluster.metadata.client_quotas import CONNECTION_CREATION_RATE
from barnabas.config import Listener as Endpoint
from barnabas.protocol.errors import ProtocolError
from barnabas.server.api.context import Deferred
from barnabas.server.transport.acceptor import Limits, Listener, Transport, bind
from barnabas.sockets import socket_stream
from barnabas.sockets.file_ranges import SLICE_BYTES
from barnabas.sockets.socket_stream import SocketStream

LIMITS = Limits(
    request_bytes_max=1024 * 1024,
    idle_ms_max=600_000,
    authentication_ms_max=30_000,
    connections_max=1000,
    connections_per_ip_max=1000,
    connections_per_ip_overrides={},
    send_buffer_bytes=-1,
    receive_buffer_bytes=-1,
    backlog=50,
)
PRODUCE, OTHER = 0, 3


@attrs.define
class Slice:
    file: Any
    position: int
    size: int

    def __len__(self) -> int:
        return self.size


class Words:
    """A dispatcher: `echo x` responds at once, `park` waits, `defer` responds on demand."""

    controller = False
    quotas = SimpleNamespace(request_time=None)

    def __init__(self) -> None:
        self.deferred: list[Deferred] = []
        self.started: list[bytes] = []
        self.encoded: list[bytes] = []
        self.started_at: list[float] = []
        self.contexts: list[Any] = []
        self.cancelled = 0
        self.parked = trio.Event()
        self.release = trio.Event()
        self.file: Any = None
        self.size = 0

    def decode(self, connection: Any, frame: bytearray) -> Any:
        if frame.startswith(b"bad"):
            raise ProtocolError("bad")
        key = PRODUCE if frame.startswith((b"defer", b"put")) else OTHER
        route = SimpleNamespace(handler=self.handle, waits=frame.startswith(b"wait"))
        return SimpleNamespace(
            api_key=key, route=route, request=bytes(frame), connection=connection, throttle_ms=0
        )

    def handle(self, context: Any, request: bytes) -> Any:
        self.started.append(request)
        self.started_at.append(context.started_at)
        self.contexts.append(context)
        match request.split()[0]:
            case b"park" | b"wait":
                return self.park()
            case b"defer":
                self.deferred.append(Deferred())
                return self.deferred[-1]
            case b"none":
                context.throttle_ms = int((request.split()[1:] or [b"0"])[0])
                return None
            case b"close":
                context.connection.close()
                return None
            case b"throttled":
                context.throttle_ms = int(request.split()[1])
                return request
            case b"fail":
                raise ValueError("a bug")
            case b"file":
                return [b"head", Slice(self.file, 3, self.size - 3), b"tail"]
            case _:
                return request

    async def park(self) -> bytes:
        self.parked.set()
        try:
            await self.release.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        return b"released"

    def encode(self, context: Any, response: Any) -> list[Any]:
        if isinstance(response, Exception):
            response = b"error " + type(response).__name__.encode()
        if response == b"put nothing":
            raise ProtocolError("it cannot be encoded")
        parts = response if isinstance(response, list) else [response]
        self.encoded.append(parts[0])
        return [struct.pack(">i", sum(map(len, parts))), *parts]

    def count(self, context: Any) -> None:
        pass


class Client:
    """A peer that sends frames."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = b""

    async def send(self, *words: bytes) -> None:
        await self.stream.send_all(b"".join(struct.pack(">i", len(w)) + w for w in words))

    async def receive(self) -> bytes | None:
        """Return the next response; None when the server closed the connection."""
        head = await self._exactly(4)
        return None if head is None else await self._exactly(struct.unpack(">i", head)[0])

    async def _exactly(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            data = await self.stream.receive_some(1 << 20)
            if not data:
                return None
            self._buffer += data
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data


class Served:
    """A transport with one listener, and clients for it."""

    def __init__(self, transport: Transport, words: Words, port: int) -> None:
        self.transport = transport
        self.words = words
        self.port = port
        self.clients: list[Client] = []

    async def client(self, receive_buffer: int | None = None) -> Client:
        sock = trio.socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await sock.connect(("127.0.0.1", self.port))
        except OSError:
            sock.close()
            raise
        self.clients.append(Client(trio.SocketStream(sock)))
        return self.clients[-1]


@asynccontextmanager
async def served(
    limits: Limits = LIMITS,
    read_ahead: Callable[[int, int, int], Awaitable[object]] = trio.lowlevel.checkpoint,  # type: ignore[assignment]
) -> AsyncIterator[Served]:
    words = Words()
    transport = Transport(limits, read_ahead)
    sock = bind(Endpoint("PLAINTEXT", "127.0.0.1", 0, "PLAINTEXT"), limits)
    listener = Listener(Endpoint("PLAINTEXT", "127.0.0.1", 0, "PLAINTEXT"), sock, "broker")
    dispatchers: Any = {"broker": words}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.run, [listener], dispatchers)
        await trio.testing.wait_all_tasks_blocked()
        server = Served(transport, words, listener.port)
        with trio.fail_after(60):
            yield server
        for client in server.clients:
            client.stream.socket.close()
        nursery.cancel_scope.cancel()


def in_trio(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        trio.run(test)

    run.__name__ = test.__name__
    return run


@in_trio
async def test_connection_with_many_requests_lets_other_tasks_run() -> None:
    async with served() as server:
        client = await server.client()
        started: list[int] = []
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                while True:
                    started.append(len(server.words.started))
                    await trio.lowlevel.checkpoint()

            nursery.start_soon(watch)
            await client.send(*[b"put x"] * 200)
            for _ in range(200):
                await client.receive()
            nursery.cancel_scope.cancel()
        # Trio runs the tasks of a round in random order, so two slices of 16 may follow each other.
        assert max(after - before for before, after in pairwise(started)) <= 32


@in_trio
async def test_connection_pipelined_requests_are_answered_in_order() -> None:
    async with served() as server:
        client = await server.client()
        asked = [b"echo %d" % i for i in range(3000)]
        await client.send(*asked)
        assert [await client.receive() for _ in asked] == asked


@in_trio
async def test_throttled_connection_handles_nothing_until_its_time_is_over() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"throttled 300", b"echo behind")
        assert await client.receive() == b"throttled 300"
        assert await client.receive() == b"echo behind"
        throttled, behind = server.words.started_at
        assert behind - throttled >= 0.3


@in_trio
async def test_throttled_deferred_response_mutes_the_connection_when_it_is_sent() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"defer")
        while not server.words.deferred:
            await trio.lowlevel.checkpoint()
        server.words.contexts[0].throttle_ms = 300
        resolved_at = time.monotonic()
        server.words.deferred[0].resolve(b"late")
        assert await client.receive() == b"late"
        await client.send(b"echo behind")
        assert await client.receive() == b"echo behind"
        assert server.words.started_at[1] - resolved_at >= 0.3


@in_trio
async def test_throttled_request_without_a_response_mutes_the_connection_too() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"none 300", b"echo behind")
        assert await client.receive() == b"echo behind"
        without, behind = server.words.started_at
        assert behind - without >= 0.3


@in_trio
async def test_throttled_connection_frees_its_place_when_the_client_closes_it() -> None:
    async with served(attrs.evolve(LIMITS, connections_max=1)) as server:
        gone = await server.client()
        await gone.send(b"throttled 100000")
        assert await gone.receive() == b"throttled 100000"
        await gone.stream.aclose()
        next_client = await server.client()
        await next_client.send(b"echo next")
        assert await next_client.receive() == b"echo next"


@in_trio
async def test_throttled_connection_ends_when_the_client_closes_one_direction() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"throttled 100000")
        assert await client.receive() == b"throttled 100000"
        await client.stream.send_eof()
        assert await client.receive() is None


@in_trio
async def test_requests_sent_while_throttled_are_carried_out_though_the_client_has_closed() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"throttled 300")
        assert await client.receive() == b"throttled 300"
        await client.send(b"none 300", b"none")
        await client.stream.aclose()
        while server.transport.connections:
            await trio.lowlevel.checkpoint()
        assert server.words.started == [b"throttled 300", b"none 300", b"none"]
        first, second, third = server.words.started_at
        assert second - first >= 0.3
        assert third - second >= 0.3


@in_trio
async def test_connection_calls_back_once_when_it_has_ended() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"echo 1")
        assert await client.receive() == b"echo 1"
        (connection_,) = server.transport.connections
        ended: list[int] = []
        connection_.on_close(lambda: ended.append(1))
        connection_.on_close(lambda: ended.append(len(server.transport.connections)))
        await client.stream.aclose()
        while server.transport.connections:
            await trio.lowlevel.checkpoint()
        assert ended == [1, 0]


@in_trio
async def test_connection_with_many_requests_lets_other_connections_run() -> None:
    async with served() as server, trio.open_nursery() as nursery:
        client, words = await server.client(), server.words
        at_turns = [0]

        async def watch() -> None:
            while True:
                await trio.lowlevel.checkpoint()
                at_turns.append(len(words.started))

        asked = [b"echo %d" % i for i in range(3000)]
        await client.send(*asked)
        nursery.start_soon(watch)
        assert [await client.receive() for _ in asked] == asked
        nursery.cancel_scope.cancel()
        assert max(later - earlier for earlier, later in pairwise(at_turns)) <= 256


@in_trio
async def test_connection_waiting_request_delays_later_requests() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"echo 1", b"park", b"echo 2")
        assert await client.receive() == b"echo 1"
        await server.words.parked.wait()
        assert server.words.started == [b"echo 1", b"park"]
        server.words.release.set()
        assert [await client.receive(), await client.receive()] == [b"released", b"echo 2"]


@in_trio
async def test_connection_deferred_responses_keep_their_order_and_only_produce_overtakes() -> None:
    async with served() as server:
        client, words = await server.client(), server.words
        await client.send(b"defer 1", b"defer 2", b"echo 3")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert words.started == [b"defer 1", b"defer 2"]
        words.deferred[1].resolve(b"second")
        await trio.testing.wait_all_tasks_blocked(0.05)
        words.deferred[0].resolve(b"first")
        answers = [await client.receive() for _ in range(3)]
        assert answers == [b"first", b"second", b"echo 3"]


@in_trio
async def test_connection_deferred_response_larger_than_the_socket_buffer_arrives_whole() -> None:
    async with served(attrs.evolve(LIMITS, send_buffer_bytes=65536)) as server:
        client, words = await server.client(receive_buffer=65536), server.words
        await client.send(b"defer 1", b"defer 2", b"echo 3")
        await trio.testing.wait_all_tasks_blocked(0.05)
        words.deferred[0].resolve(b"a" * 3_000_000)
        words.deferred[1].resolve(b"b" * 1_000_000)
        assert await client.receive() == b"a" * 3_000_000
        assert await client.receive() == b"b" * 1_000_000
        assert await client.receive() == b"echo 3"


@in_trio
async def test_connection_deferred_response_to_a_closed_peer_is_dropped() -> None:
    async with served() as server:
        client, words = await server.client(), server.words
        await client.send(b"defer 1")
        await trio.testing.wait_all_tasks_blocked(0.05)
        await client.stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not server.transport.connections
        words.deferred[0].resolve(b"nobody hears it")


@in_trio
async def test_connection_closed_before_a_request_waits_logs_no_handler_error() -> None:
    async def broken(*_: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SocketStream, "send", broken)
        async with served() as server:
            client, words = await server.client(), server.words
            await client.send(b"echo 1", b"park", b"echo 2")
            assert await client.receive() is None
            assert words.started == [b"echo 1", b"park"]
            assert words.encoded == [b"echo 1"]


@in_trio
async def test_connection_parked_request_is_cancelled_when_the_peer_closes() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"park")
        await server.words.parked.wait()
        client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await client.stream.aclose()
        while server.transport.connections:  # noqa: ASYNC110 - there is no event for it
            await trio.sleep(0.01)
        assert server.words.cancelled == 1


@in_trio
async def test_connection_half_closed_by_the_peer_still_gets_its_response() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"park", b"echo behind")
        await server.words.parked.wait()
        await client.stream.send_eof()
        await trio.sleep(0.05)
        server.words.release.set()
        assert await client.receive() == b"released"
        assert await client.receive() == b"echo behind"
        assert await client.receive() is None


@in_trio
async def test_connection_request_behind_a_parked_one_is_carried_out_when_the_peer_closes() -> None:
    """As the leave of a group behind a join: at least one request comes in a later segment."""
    async with served() as server:
        client = await server.client()
        await client.send(b"park", b"echo 1")
        await server.words.parked.wait()
        await client.send(b"park", b"echo 2")
        await client.stream.aclose()
        while server.transport.connections:  # noqa: ASYNC110 - there is no event for it
            await trio.sleep(0.01)
        assert server.words.cancelled == 2
        assert server.words.started == [b"park", b"echo 1", b"park", b"echo 2"]
        assert server.words.encoded == []


@in_trio
async def test_connection_bad_request_closes_after_earlier_responses() -> None:
    async with served() as server:
        client, bystander = await server.client(), await server.client()
        await client.send(b"echo 1", b"defer 2", b"bad")
        assert await client.receive() == b"echo 1"
        server.words.deferred[0].resolve(b"second")
        assert await client.receive() == b"second"
        assert await client.receive() is None
        await bystander.send(b"echo me")
        assert await bystander.receive() == b"echo me"


@in_trio
async def test_connection_response_that_cannot_be_encoded_is_the_last() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"put 1", b"put nothing", b"put 3", b"defer 4")
        assert await client.receive() == b"put 1"
        assert await client.receive() is None


@in_trio
async def test_connection_failing_handler_gets_an_error_response_and_stays_open() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"fail", b"none", b"echo on")
        assert await client.receive() == b"error ValueError"
        assert await client.receive() == b"echo on"


@in_trio
async def test_connection_request_time_starts_with_its_handler() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"park", b"echo behind")
        await server.words.parked.wait()
        released_at = time.monotonic()
        server.words.release.set()
        assert await client.receive() == b"released"
        assert await client.receive() == b"echo behind"
        parked, behind = server.words.started_at
        assert parked <= released_at <= behind


@in_trio
async def test_connection_closed_by_a_handler_sends_no_response() -> None:
    async with served() as server:
        client = await server.client()
        await client.send(b"echo 1", b"close", b"echo never")
        assert await client.receive() == b"echo 1"
        assert await client.receive() is None
        assert b"echo never" not in server.words.started


@contextmanager
def data_file(size: int) -> Iterator[tuple[Any, bytes]]:
    with tempfile.TemporaryFile() as file:
        data = os.urandom(size)
        file.write(data)
        file.flush()
        yield file, data


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_connection_file_slice_arrives_between_the_parts_around_it(size: int) -> None:
    @in_trio
    async def run() -> None:
        with data_file(size) as (file, data):
            async with served(attrs.evolve(LIMITS, send_buffer_bytes=16384)) as server:
                server.words.file, server.words.size = file, size
                client = await server.client(receive_buffer=8192)
                await client.send(b"file", b"echo 2")
                assert await client.receive() == b"head" + data[3:] + b"tail"
                assert await client.receive() == b"echo 2"

    run()


def test_connection_cold_pages_are_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_stream, "is_cached", lambda fd, position, size: False)
    asked: list[tuple[int, int]] = []

    async def read_ahead(fd: int, position: int, size: int) -> None:
        asked.append((position, size))

    @in_trio
    async def run() -> None:
        with data_file(600_000) as (file, data):
            async with served(read_ahead=read_ahead) as server:
                server.words.file, server.words.size = file, 600_000
                client = await server.client()
                await client.send(b"file")
                assert await client.receive() == b"head" + data[3:] + b"tail"

    run()
    assert asked[0] == (3, SLICE_BYTES)
    assert max(position + size for position, size in asked) == 600_000


def test_connection_unreadable_log_is_logged(monkeypatch, caplog) -> None:
    monkeypatch.setattr(socket_stream, "is_cached", lambda fd, position, size: False)

    async def read_ahead(fd: int, position: int, size: int) -> None:
        raise OSError(errno.EIO, "I/O error")

    @in_trio
    async def run() -> None:
        with data_file(600_000) as (file, _):
            async with served(read_ahead=read_ahead) as server:
                server.words.file, server.words.size = file, 600_000
                client = await server.client()
                await client.send(b"file")
                while await client.receive() is not None:
                    pass

    run()
    assert "cannot read a log, closing host=127.0.0.1 error=[Errno 5] I/O error" in caplog.text


@in_trio
async def test_connection_peer_that_does_not_read_is_not_read_from() -> None:
    async with served(attrs.evolve(LIMITS, send_buffer_bytes=8192)) as server:
        client = await server.client(receive_buffer=4096)
        big = b"echo " + bytes(100_000)
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                await client.send(*[big] * 100)

            nursery.start_soon(ask)
            await trio.sleep(0.2)
            assert len(server.words.started) < 100
            for _ in range(100):
                assert await client.receive() == big


@in_trio
async def test_connection_idle_is_closed_and_busy_stays_open() -> None:
    async with served(attrs.evolve(LIMITS, idle_ms_max=800)) as server:
        silent, parked = await server.client(), await server.client()
        await parked.send(b"park")
        assert await silent.receive() is None
        await trio.sleep(1)
        server.words.release.set()
        assert await parked.receive() == b"released"


@in_trio
async def test_acceptor_connections_above_the_limit_of_an_address_are_closed() -> None:
    async with served(attrs.evolve(LIMITS, connections_per_ip_max=1)) as server:
        first, second = await server.client(), await server.client()
        assert await second.receive() is None
        await first.send(b"echo 1")
        assert await first.receive() == b"echo 1"
        assert server.transport.refused == 1


@in_trio
async def test_acceptor_connections_above_max_connections_wait() -> None:
    async with served(attrs.evolve(LIMITS, connections_max=1)) as server:
        first, second = await server.client(), await server.client()
        await second.send(b"echo 2")
        await trio.sleep(0.05)
        assert server.words.started == []
        await first.stream.aclose()
        assert await second.receive() == b"echo 2"


@in_trio
async def test_acceptor_free_slots_wake_every_listener_that_waits() -> None:
    limits = attrs.evolve(LIMITS, connections_max=2)
    transport = Transport(limits, trio.lowlevel.checkpoint)  # type: ignore[arg-type]
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 0, "PLAINTEXT")
    listeners = [Listener(endpoint, bind(endpoint, limits), "broker") for _ in range(2)]
    dispatchers: Any = {"broker": Words()}
    async with trio.open_nursery() as nursery:
        await nursery.start(transport.run, listeners, dispatchers)

        async def client(listener: Listener) -> Client:
            return Client(await trio.open_tcp_stream("127.0.0.1", listener.port))

        with trio.fail_after(60):
            taken = [await client(listeners[0]) for _ in range(2)]
            await trio.sleep(0.05)
            waiting = [await client(listener) for listener in listeners]
            await trio.sleep(0.05)
            for each in taken:
                await each.stream.aclose()
            for each in waiting:
                await each.send(b"echo 1")
                assert await each.receive() == b"echo 1"
                await each.stream.aclose()
        nursery.cancel_scope.cancel()


@in_trio
async def test_acceptor_above_its_rate_accepts_the_next_connection_late() -> None:
    limits = attrs.evolve(LIMITS, listener_creation_rate_max={"PLAINTEXT": 1})
    async with served(limits) as server:
        moments = [time.monotonic()]
        for _ in range(12):
            client = await server.client()
            await client.send(b"echo 1")
            assert await client.receive() == b"echo 1"
            moments.append(time.monotonic())
        assert moments[-1] - moments[0] >= 1
        waits = sorted(after - before for before, after in itertools.pairwise(moments[:11]))
        assert waits[7] < 0.5, "of the first ten, only a stall of the machine delays some"
        assert server.transport.accepted == 12


@in_trio
async def test_acceptor_ends_though_a_connection_waits_for_its_rate() -> None:
    limits = attrs.evolve(LIMITS, creation_rate_max=0)
    async with served(limits) as server:
        client = await server.client()
        await trio.sleep(0.1)
        await server.transport.stop(1)
        assert await client.receive() is None


@in_trio
async def test_acceptor_closes_connections_of_an_address_above_its_rate_late() -> None:
    async with served() as server:
        server.transport.limit_addresses({((("ip", "127.0.0.1"),), CONNECTION_CREATION_RATE): 1})
        for _ in range(10):
            client = await server.client()
            await client.send(b"echo 1")
            assert await client.receive() == b"echo 1"
        begun = time.monotonic()
        refused = await server.client()
        await refused.send(b"echo 2")
        # A socket that is closed with unread bytes resets the connection.
        with suppress(trio.BrokenResourceError):
            assert await refused.receive() is None
        assert 0.8 < time.monotonic() - begun < 30
        assert server.transport.accepted == 10
        assert b"echo 2" not in server.words.started


@in_trio
async def test_acceptor_without_descriptors_pauses() -> None:
    async with served() as server:
        real = socket.socket.accept
        failures = [OSError(errno.EMFILE, "Too many open files")]

        def accept(sock: socket.socket) -> Any:
            if failures:
                raise failures.pop()
            return real(sock)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket.socket, "accept", accept)
            client = await server.client()
            await client.send(b"echo 1")
            assert await client.receive() == b"echo 1"


@in_trio
async def test_transport_stop_answers_requests_in_flight_and_closes_the_rest() -> None:
    async with served() as server:
        idle, busy = await server.client(), await server.client()
        await busy.send(b"park", b"echo not started")
        await server.words.parked.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.transport.stop, 5)
            assert await idle.receive() is None
            server.words.release.set()
            assert await busy.receive() == b"released"
            assert await busy.receive() is None
        with pytest.raises(OSError):  # noqa: PT011 - refused or reset
            await server.client()


@in_trio
async def test_transport_stop_ends_after_its_grace_time() -> None:
    async with served() as server:
        stuck = await server.client()
        await stuck.send(b"park")
        await server.words.parked.wait()
        await server.transport.stop(0.1)
        assert await stuck.receive() is None


@in_trio
async def test_transport_stop_does_not_wait_for_parked_requests() -> None:
    async with served() as server:
        parked = await server.client()
        await parked.send(b"wait")
        await server.words.parked.wait()
        with trio.fail_after(100):
            await server.transport.stop(60)
        assert await parked.receive() is None
        assert server.words.cancelled == 1
