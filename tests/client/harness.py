"""Helpers of the client's tests: an event loop per test, brokers that misbehave on purpose."""

import ssl
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Any

import trio

from barnabas.client import Address, KafkaClient, open_client
from barnabas.protocol.apis import API
from barnabas.protocol.framing import encode_response, parse_request_header
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages_base import Message

FAST = {"retry.backoff.ms": "5", "reconnect.backoff.ms": "5", "reconnect.backoff.max.ms": "50"}
_LENGTH = Struct(">i")


def run(
    test: Callable[[], Awaitable[None]],
    timeout_s: float = 60.0,
    clock: trio.abc.Clock | None = None,
) -> None:
    """Run a test in its own event loop."""

    async def main() -> None:
        with trio.fail_after(timeout_s):
            await test()

    trio.run(main, clock=clock)


async def eventually(condition: Callable[[], bool], timeout_s: float = 50) -> None:
    """Wait until a condition holds that nothing announces."""
    with trio.fail_after(timeout_s):
        while not condition():  # noqa: ASYNC110  (what is looked at has no event)
            await trio.sleep(0.02)


def with_client(
    bootstrap: str, test: Callable[[KafkaClient], Awaitable[None]], **properties: str
) -> None:
    """Run a test with a client of a cluster; `properties` have _ for a dot."""
    named = {name.replace("_", "."): value for name, value in properties.items()}

    async def main() -> None:
        async with open_client({"bootstrap.servers": bootstrap, **FAST, **named}) as client:
            await test(client)

    run(main)


Handler = Callable[[Message, int], Message | bytes | None]
"""Takes a request and its version; answers a response, raw bytes for a frame, None for silence."""


class FakeBroker:
    """A broker whose answers a test decides; it answers ApiVersions by itself."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self.handler = handler
        self.tls = tls
        self.requests: list[Message] = []
        self.address = Address("127.0.0.1", 0)
        self.connections = 0

    async def serve(self, task_status: "trio.TaskStatus[Address]") -> None:
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            self.address = Address("127.0.0.1", listeners[0].socket.getsockname()[1])
            nursery.start_soon(trio.serve_listeners, self._connection, listeners)
            task_status.started(self.address)

    async def _connection(self, plain: trio.SocketStream) -> None:
        self.connections += 1
        stream: trio.abc.Stream = plain
        if self.tls is not None:
            stream = trio.SSLStream(plain, self.tls, server_side=True, https_compatible=True)
        received = bytearray()
        try:
            while data := await stream.receive_some():
                received += data
                while (frame := _cut(received)) is not None:
                    if not await self._answer(stream, frame):
                        return
        except trio.BrokenResourceError:
            pass

    async def _answer(self, stream: trio.abc.Stream, frame: bytes) -> bool:
        header, pos = parse_request_header(frame)
        api, version = API[header.api_key], header.api_version
        request, _ = api.request_type.decode_from(frame, pos, version)
        self.requests.append(request)
        answer: Any = self.handler(request, version)
        if answer is None and api.name == "ApiVersions":
            answer = all_versions()
        if isinstance(answer, bytes):
            await stream.send_all(answer)
            return bool(answer)  # nothing: close
        if answer is not None:
            parts = encode_response(
                header.correlation_id, api.response_header_version(version), answer, version
            )
            await stream.send_all(b"".join(parts))
        return True


def _cut(received: bytearray) -> bytes | None:
    if len(received) < 4:
        return None
    (size,) = _LENGTH.unpack_from(received)
    if len(received) < size + 4:
        return None
    frame = bytes(received[4 : size + 4])
    del received[: size + 4]
    return frame


def all_versions() -> ApiVersionsResponse:
    """Return what a broker answers that serves every api."""
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=api.key, min_version=api.advertised[0], max_version=api.advertised[1]
            )
            for api in API.values()
        ]
    )


def metadata(broker: FakeBroker, topic: str = "t", epoch: int = 1) -> MetadataResponse:
    """Return what a broker answers that leads the only partition of a topic."""
    partition = MetadataResponse.MetadataResponsePartition(
        partition_index=0, leader_id=1, leader_epoch=epoch, replica_nodes=[1]
    )
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=1, host=broker.address.host, port=broker.address.port
            )
        ],
        controller_id=1,
        topics=[MetadataResponse.MetadataResponseTopic(name=topic, partitions=[partition])],
    )


ClientTest = Callable[[KafkaClient, FakeBroker], Awaitable[None]]


def with_fake(handler: Handler, test: ClientTest, **properties: str) -> None:
    """Run a test with a client of a fake broker."""
    with_fake_broker(FakeBroker(handler), test, **properties)


def with_fake_broker(
    broker: FakeBroker,
    test: ClientTest,
    clock: trio.abc.Clock | None = None,
    **properties: str,
) -> None:
    """Run a test with a fake broker whose handler knows the broker; raises as the test does."""
    named = {name.replace("_", "."): value for name, value in properties.items()}

    async def main() -> None:
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            address = await nursery.start(broker.serve)
            try:
                async with open_client({"bootstrap.servers": str(address), **FAST, **named}) as own:
                    await test(own, broker)
            except Exception as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    run(main, clock=clock)
