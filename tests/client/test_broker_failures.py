"""Brokers that are away, silent, moved or broken, and what the client says and does then."""

import socket

import pytest
import trio
import trio.testing

from barnabas.client import (
    Address,
    AuthenticationError,
    BrokerGoneError,
    BrokerSilentError,
    CallTimeoutError,
    ClientConfig,
    KafkaClient,
    MalformedResponseError,
    NewRecord,
    Producer,
    RecordReader,
    UnsupportedVersionError,
    open_client,
)
from barnabas.client.admin_calls import create_topic, describe_topic, list_offset
from barnabas.client.broker_connection import BrokerConnection, open_connection
from barnabas.client.core.api_negotiation import ApiTable
from barnabas.client.failures import BrokerRefusedError
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.protocol.messages_base import Message
from barnabas.sockets.file_ranges import Part
from barnabas.testing import Node
from barnabas.testing.free_ports import free_ports
from tests.client.harness import (
    FAST,
    ClientTest,
    FakeBroker,
    metadata,
    run,
    with_fake,
    with_fake_broker,
)


def test_connection_refused_differs_from_silence() -> None:
    async def test() -> None:
        config = ClientConfig((), request_timeout_s=0.9)
        async with trio.open_nursery() as nursery:
            refusing = Address("127.0.0.1", free_ports(1)[0])
            with pytest.raises(BrokerGoneError) as gone:
                await open_connection(refusing, config, nursery)
            assert str(gone.value) == f"{refusing}: Connection refused"
            assert not gone.value.sent
            with socket.create_server(("127.0.0.1", 0)) as silent:
                address = Address("127.0.0.1", silent.getsockname()[1])
                with pytest.raises(BrokerSilentError, match=r"within 0\.9 s"):
                    await open_connection(address, config, nursery)

    run(test)


def test_connection_to_an_unknown_host_says_so() -> None:
    async def test() -> None:
        async with trio.open_nursery() as nursery:
            with pytest.raises(BrokerGoneError) as gone:
                await open_connection(Address("no.such.host.invalid", 1), ClientConfig(()), nursery)
            assert "no.such.host.invalid:1" in str(gone.value)

    run(test)


@pytest.mark.parametrize("host", [".kafka", "kafka..example", "k" * 64])
def test_connection_to_an_invalid_host_name_fails(host: str) -> None:
    async def test() -> None:
        async with trio.open_nursery() as nursery:
            with pytest.raises(BrokerGoneError, match="host name is invalid") as gone:
                await open_connection(Address(host, 9092), ClientConfig(()), nursery)
            assert not isinstance(gone.value, BrokerRefusedError)

    run(test)


def test_call_to_a_closed_port_fails_after_its_time_with_the_reason() -> None:
    async def test() -> None:
        config = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}", **FAST}
        async with open_client({**config, "default.api.timeout.ms": "1000"}) as client:
            with pytest.raises(CallTimeoutError, match="refused") as timeout:
                await describe_topic(client, "t")
            assert isinstance(timeout.value.last, BrokerGoneError)

    run(test)


@pytest.mark.parametrize("closes_at", [ApiVersionsRequest, MetadataRequest])
def test_connection_closed_before_an_answer_hints_at_the_security_protocol(
    closes_at: type[Message],
) -> None:
    async def test(client: KafkaClient, broker: FakeBroker) -> None:
        with pytest.raises(CallTimeoutError, match=r"security\.protocol"):
            await describe_topic(client, "t")

    def handler(request: Message, version: int) -> bytes | None:
        return b"" if isinstance(request, closes_at) else None

    with_fake(handler, test, default_api_timeout_ms="1000")


@pytest.mark.parametrize(
    "data", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4\0\0\0\7", b"\x7f\xff\xff\xff"]
)
def test_malformed_response_fails_at_once(data: bytes) -> None:
    async def test(client: KafkaClient, broker: FakeBroker) -> None:
        with pytest.raises(MalformedResponseError):
            await describe_topic(client, "t")

    with_fake(lambda request, version: data, test)


def test_request_without_an_answer_closes_the_connection_and_is_sent_again() -> None:
    answers = iter([None, None])

    def handler(request: Message, version: int) -> Message | None:
        if isinstance(request, MetadataRequest):
            return next(answers, metadata(broker))
        return None

    async def test(client: KafkaClient, fake: FakeBroker) -> None:
        found = await describe_topic(client, "t")
        assert found is not None
        assert fake.connections >= 3  # a busy machine may answer later than in 100 ms

    broker = FakeBroker(handler)
    with_fake_broker(broker, test, request_timeout_ms="100")


def test_retriable_error_of_a_leader_refreshes_the_metadata() -> None:
    answers = iter([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE])

    def handler(request: Message, version: int) -> Message | None:
        if isinstance(request, MetadataRequest):
            return metadata(broker)
        if isinstance(request, ListOffsetsRequest):
            found = ListOffsetsResponse.ListOffsetsPartitionResponse(
                error_code=next(answers, ErrorCode.NONE), offset=42
            )
            topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[found])
            return ListOffsetsResponse(topics=[topic])
        return None

    async def test(client: KafkaClient, fake: FakeBroker) -> None:
        assert await list_offset(client, "t", 0) == 42
        kinds = [type(each) for each in fake.requests]
        assert kinds.count(MetadataRequest) == 3

    broker = FakeBroker(handler)
    with_fake_broker(broker, test)


def test_error_that_is_not_retriable_is_raised_at_once() -> None:
    def handler(request: Message, version: int) -> Message | None:
        if isinstance(request, MetadataRequest):
            response = metadata(broker)
            response.topics[0].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return response
        return None

    async def test(client: KafkaClient, fake: FakeBroker) -> None:
        with pytest.raises(KafkaError) as refused:
            await describe_topic(client, "t")
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    broker = FakeBroker(handler)
    with_fake_broker(broker, test)


def test_api_versions_of_an_old_broker_are_requested_in_its_version() -> None:
    def handler(request: Message, version: int) -> Message | bytes | None:
        if not isinstance(request, ApiVersionsRequest):
            return None
        if version <= 1:
            asked.append(version)
            return ApiVersionsResponse(api_keys=old)
        asked.append(version)
        refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=old)
        body = refusal.encode(0)
        return (len(body) + 4).to_bytes(4, "big") + correlation(asked) + body

    def correlation(asked: list[int]) -> bytes:
        return (len(asked) - 1).to_bytes(4, "big")

    asked: list[int] = []
    old = [ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=1)]

    async def test(client: KafkaClient, broker: FakeBroker) -> None:
        with pytest.raises(UnsupportedVersionError, match="Metadata"):
            await describe_topic(client, "t")
        assert asked == [4, 1]

    with_fake(handler, test)


def test_throttled_client_waits_before_the_next_request() -> None:
    def handler(request: Message, version: int) -> Message | None:
        if isinstance(request, MetadataRequest):
            response = metadata(broker)
            response.throttle_time_ms = 200
            return response
        return None

    async def test(client: KafkaClient, fake: FakeBroker) -> None:
        start = trio.current_time()
        await client.refresh_metadata(("t",))
        await client.refresh_metadata(("t",))
        assert trio.current_time() - start >= 0.2

    broker = FakeBroker(handler)
    with_fake_broker(broker, test)


def test_sasl_refusals_are_raised_at_once_with_the_brokers_reason() -> None:
    def handler(request: Message, version: int) -> Message | None:
        if isinstance(request, SaslHandshakeRequest):
            if request.mechanism == "PLAIN":
                return SaslHandshakeResponse(mechanisms=["PLAIN"])
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeResponse(error_code=code, mechanisms=["PLAIN"])
        if isinstance(request, SaslAuthenticateRequest):
            assert request.auth_bytes == b"\0me\0wrong"
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return SaslAuthenticateResponse(error_code=code, error_message="Bad password")
        return None

    def test_of(reason: str) -> ClientTest:
        async def test(client: KafkaClient, broker: FakeBroker) -> None:
            with pytest.raises(AuthenticationError, match=reason):
                await describe_topic(client, "t")

        return test

    sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "me", "sasl_password": "wrong"}
    with_fake(handler, test_of("Bad password"), sasl_mechanism="PLAIN", **sasl)
    with_fake(handler, test_of("it offers: PLAIN"), sasl_mechanism="SCRAM-SHA-256", **sasl)


def test_connection_is_replaced_before_its_sasl_session_ends() -> None:
    def handler(request: Message, version: int) -> Message | None:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        if isinstance(request, SaslAuthenticateRequest):
            return SaslAuthenticateResponse(session_lifetime_ms=20_000)
        return metadata(broker) if isinstance(request, MetadataRequest) else None

    async def test(client: KafkaClient, fake: FakeBroker) -> None:
        await client.refresh_metadata(("t",))
        await client.refresh_metadata(("t",))
        assert fake.connections == 1
        clock.jump(20)
        await client.refresh_metadata(("t",))
        assert fake.connections == 2

    broker, clock = FakeBroker(handler), trio.testing.MockClock(rate=1)
    with_fake_broker(
        broker,
        test,
        clock,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="me",
        sasl_password="secret",
    )


def test_client_follows_a_broker_that_moves_to_another_port() -> None:
    async def test(node: Node, moved: Node) -> None:
        config = {"bootstrap.servers": f"{node.bootstrap},{moved.bootstrap}", **FAST}
        async with open_client(config) as client:
            await create_topic(client, "t")
            producer = Producer(client)
            reader = RecordReader(client, "t", 0, 0)
            assert await producer.send("t", 0, [NewRecord(b"k", b"a")]) == 0
            assert [record.value for record in await reader.fetch()] == [b"a"]
            await trio.to_thread.run_sync(node.stop)
            await trio.to_thread.run_sync(moved.start)
            assert await producer.send("t", 0, [NewRecord(b"k", b"b")]) == 1
            found = await reader.fetch()
            assert [record.value for record in found] == [b"b"]
            assert client.metadata.brokers[1].port == moved.port

    with Node() as node:
        moved = Node(data=node.data)
        moved.port = free_ports(1)[0]

        async def main() -> None:
            await test(node, moved)

        try:
            run(main)
        finally:
            moved.close()


def test_pipelined_requests_get_their_own_answers() -> None:
    def handler(request: Message, version: int) -> Message | None:
        if isinstance(request, MetadataRequest):
            topics = request.topics or []
            return MetadataResponse(cluster_id=topics[0].name if topics else "")
        return None

    async def test(client: KafkaClient, broker: FakeBroker) -> None:
        connection = await client.pool.connection(broker.address)

        async def ask(name: str) -> None:
            topic = MetadataRequest.MetadataRequestTopic(name=name)
            request = MetadataRequest(topics=[topic])
            response = await connection.ask(request, MetadataResponse)
            assert response.cluster_id == name

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(ask, f"t{number}")
        with trio.CancelScope() as scope:
            scope.cancel()
            await ask("cancelled")
        await ask("after")
        assert connection.is_idle

    with_fake(handler, test)


def test_connections_of_several_lanes_open_at_once() -> None:
    async def test(client: KafkaClient, broker: FakeBroker) -> None:
        async with trio.open_nursery() as nursery:
            for lane in ("", "a", "b", "a"):
                nursery.start_soon(client.pool.connection, broker.address, lane)
        assert broker.connections == 3

    with_fake(lambda request, version: None, test)


def test_create_topic_with_a_lost_controller_goes_to_another_broker() -> None:
    def handler(request: Message, version: int) -> Message | None:
        if isinstance(request, MetadataRequest):
            response = metadata(broker)
            response.controller_id = 2
            lost = MetadataResponse.MetadataResponseBroker(
                node_id=2, host="127.0.0.1", port=lost_port
            )
            response.brokers.append(lost)
            return response
        if isinstance(request, CreateTopicsRequest):
            name = request.topics[0].name
            created = CreateTopicsResponse.CreatableTopicResult(name=name, configs=[])
            return CreateTopicsResponse(topics=[created])
        return None

    async def test(client: KafkaClient, fake: FakeBroker) -> None:
        await create_topic(client, "t")
        assert isinstance(fake.requests[-1], CreateTopicsRequest)

    lost_port = free_ports(1)[0]
    broker = FakeBroker(handler)
    with_fake_broker(broker, test, default_api_timeout_ms="5000")


class StuckStream:
    """A connection to a peer that does not read."""

    def receive_into(self, buffer: memoryview, /) -> int:
        raise BlockingIOError

    async def wait_readable(self) -> None:
        await trio.sleep_forever()

    def send_now(self, parts: list[Part]) -> list[Part]:
        return parts

    async def send(self, parts: list[Part]) -> None:
        await trio.sleep_forever()

    def close(self) -> None:
        pass


def test_request_to_a_peer_that_does_not_read_is_silence_for_all_who_wait() -> None:
    async def test() -> None:
        config = ClientConfig((), request_timeout_s=0.1)
        connection = BrokerConnection(Address("stuck", 1), config, StuckStream())
        connection.versions = ApiTable({3: (0, 13)})
        sent: list[bool] = []

        async def ask() -> None:
            with pytest.raises((BrokerSilentError, BrokerGoneError)) as failure:
                await connection.ask(MetadataRequest(topics=[]), MetadataResponse)
            sent.append(failure.value.sent)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(ask)
        assert sorted(sent) == [False, True]
        assert not connection.is_usable

    run(test)
