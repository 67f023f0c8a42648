"""The proxy: relays all bytes, replaces addresses, and relays what it cannot decode."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from barnabas.inspect.conversation import Frame
from barnabas.inspect.proxy import Proxy
from barnabas.inspect.rendering import Heading
from barnabas.protocol.apis import API
from barnabas.protocol.framing import encode_request, encode_response, parse_request_header
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages_base import Message

Broker = MetadataResponse.MetadataResponseBroker


class Server:
    """Answers each request with the message prepared for its api, and notes its client."""

    def __init__(self, answers: dict[int, Message]) -> None:
        self.answers = answers
        self.requests = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        while head := await stream.receive_some(4):
            frame = await exactly(stream, int.from_bytes(head))
            header, _ = parse_request_header(frame)
            self.requests += 1
            answer, api = self.answers[header.api_key], API[header.api_key]
            version = header.api_version
            parts = encode_response(
                header.correlation_id, api.response_header_version(version), answer, version
            )
            await stream.send_all(b"".join(map(bytes, parts)))


async def exactly(stream: trio.SocketStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += await stream.receive_some(size - len(data))
    return data


async def call(stream: trio.SocketStream, message: Message, version: int) -> Any:
    await stream.send_all(b"".join(map(bytes, encode_request(5, "me", message, version))))
    frame = await exactly(stream, int.from_bytes(await exactly(stream, 4)))
    api = API[message.API_KEY]
    return api.response_type.decode(frame[4 + api.response_header_version(version) :], version)


class Scene:
    """Servers, a proxy for the first of them, and the frames and lines that it reports."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.frames: list[Frame] = []
        self.reported: list[str] = []
        self.port = 0
        self.clients: list[trio.SocketStream] = []

    async def server(self, handler: Callable[[trio.SocketStream], Awaitable[None]]) -> int:
        listeners = await self.nursery.start(trio.serve_tcp, handler, 0)
        return listeners[0].socket.getsockname()[1]

    async def proxy(self, port: int, *, rewrite: bool = True) -> None:
        proxy = Proxy(
            ("127.0.0.1", 0),
            ("127.0.0.1", port),
            show=self.show,
            report=self.reported.append,
            rewrite=rewrite,
        )
        self.port = await self.nursery.start(proxy.run)

    def show(self, frame: Frame, heading: Heading) -> None:
        assert heading.connection.startswith("connection ")
        self.frames.append(frame)

    async def client(self, port: int | None = None) -> trio.SocketStream:
        client = await trio.open_tcp_stream("127.0.0.1", port or self.port)
        self.clients.append(client)
        return client


def play(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                scene = Scene(nursery)
                await story(scene)
                for client in scene.clients:
                    await client.aclose()
                nursery.cancel_scope.cancel()

    trio.run(run)


def metadata(*brokers: tuple[int, str, int]) -> MetadataResponse:
    made = [Broker(node_id=number, host=host, port=port) for number, host, port in brokers]
    answer = MetadataResponse(brokers=made, cluster_id="c")
    answer.unknown_tagged_fields[99] = b"from a newer server"
    return answer


def test_proxy_of_one_broker_keeps_clients_on_its_port() -> None:
    async def story(scene: Scene) -> None:
        server = Server({3: metadata((1, "unreachable.example", 9092))})
        await scene.proxy(await scene.server(server.serve))
        answer = await call(await scene.client(), MetadataRequest(topics=[]), 12)
        assert [(b.host, b.port) for b in answer.brokers] == [("127.0.0.1", scene.port)]
        assert answer.unknown_tagged_fields == {99: b"from a newer server"}
        names = [frame.decode().name for frame in scene.frames]
        assert names == ["Metadata v12 request", "Metadata v12 response"]

    play(story)


def test_proxy_of_several_brokers_opens_a_port_for_each() -> None:
    async def story(scene: Scene) -> None:
        other = Server({10: FindCoordinatorResponse(error_code=15)})
        first = Server({})
        ports = [await scene.server(first.serve), await scene.server(other.serve)]
        brokers = [(n, "127.0.0.1", port) for n, port in enumerate(ports)]
        coordinator = FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=ports[1])
        moved = FetchResponse.NodeEndpoint(node_id=1, host="127.0.0.1", port=ports[1])
        first.answers = {
            1: FetchResponse(node_endpoints=[moved]),
            3: metadata(*brokers),
            10: coordinator,
        }
        await scene.proxy(ports[0])
        client = await scene.client()
        answer = await call(client, MetadataRequest(topics=[]), 12)
        here, there = (broker.port for broker in answer.brokers)
        assert here == scene.port
        assert there not in (*ports, here)
        found = await call(client, FindCoordinatorRequest(key="g"), 3)
        assert (found.host, found.port) == ("127.0.0.1", there)
        fetched = await call(client, FetchRequest(), 16)
        assert fetched.node_endpoints[0].port == there
        refused = await call(await scene.client(there), FindCoordinatorRequest(key="g"), 3)
        assert (refused.error_code, other.requests) == (15, 1)
        assert scene.reported == [f"127.0.0.1:{ports[1]} is reached at 127.0.0.1:{there}"]

    play(story)


def test_proxy_without_rewriting_changes_no_byte_and_reports_other_addresses() -> None:
    async def story(scene: Scene) -> None:
        server = Server({3: metadata((1, "elsewhere.example", 9092))})
        await scene.proxy(await scene.server(server.serve), rewrite=False)
        client = await scene.client()
        for _ in range(2):
            answer = await call(client, MetadataRequest(topics=[]), 12)
        assert answer == server.answers[3]
        assert scene.reported == [
            "clients are sent to elsewhere.example:9092, past this proxy (--no-rewrite)"
        ]

    play(story)


def test_proxy_relays_another_protocol_unchanged() -> None:
    async def echo(stream: trio.SocketStream) -> None:
        while data := await stream.receive_some():
            await stream.send_all(bytes(data)[::-1])

    async def story(scene: Scene) -> None:
        await scene.proxy(await scene.server(echo))
        client = await scene.client()
        for text in (b"\x16\x03\x01 hello", b"again"):
            await client.send_all(text)
            assert await exactly(client, len(text)) == text[::-1]
        await client.send_eof()
        assert await client.receive_some() == b""
        assert scene.reported == ["connection 1 is relayed without decoding: it is encrypted (TLS)"]
        assert scene.frames == []

    play(story)


def test_proxy_with_an_unreachable_server_reports_it() -> None:
    async def story(scene: Scene) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        await listeners[0].aclose()
        await scene.proxy(port)
        client = await scene.client()
        assert await client.receive_some() == b""
        assert "cannot be reached" in scene.reported[0]

    play(story)


def test_proxy_survives_a_client_that_disconnects() -> None:
    async def story(scene: Scene) -> None:
        server = Server({3: metadata((1, "h", 1))})
        await scene.proxy(await scene.server(server.serve))
        for _ in range(3):
            client = await scene.client()
            await client.send_all(b"\0\0\0\x20torn")
            await client.aclose()
        answer = await call(await scene.client(), MetadataRequest(topics=[]), 12)
        assert answer.cluster_id == "c"

    play(story)
