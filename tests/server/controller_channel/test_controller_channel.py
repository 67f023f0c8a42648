"""Controller operations give the same responses through the local channel and over a socket."""

import socket
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import trio

from barnabas.cluster.controller.controller_requests import ControllerRequest, TokenOperation
from barnabas.cluster.metadata.feature_levels import SUPPORTED
from barnabas.cluster.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC
from barnabas.protocol.apis import API
from barnabas.protocol.errors import EncodingError, ErrorCode, KafkaError
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid
from barnabas.security.principals import Principal
from barnabas.server.api.handlers.admin.alter_configs_handler import incremental_alter_configs
from barnabas.server.node_failures import raise_error
from barnabas.testing import Node

OTHER_BROKER = 7


class Target:
    """A node, and one way to its controller."""

    def __init__(self, node: Node, call: Callable[[Node, Message, int], Message]) -> None:
        self.node = node
        self._call = call

    @property
    def cluster_id(self) -> str:
        assert self.node.server is not None
        return self.node.server.cluster_id

    def call(self, request: Message, version: int) -> Any:
        return self._call(self.node, request, version)


def call_locally(node: Node, request: Message, version: int) -> Message:
    server, token = node.server, node._token
    assert server is not None
    assert token is not None
    response_type: type[Message] = API[request.API_KEY].response_type

    async def send() -> Message:
        return await server.channel.send(request, response_type, version=version)

    return trio.from_thread.run(send, trio_token=token)


def call_over_socket(node: Node, request: Message, version: int) -> Message:
    assert node.server is not None
    api = API[request.API_KEY]
    with socket.create_connection(("127.0.0.1", node.server.bound_port("CONTROLLER")), 10) as sock:
        sock.sendall(b"".join(encode_request(5, "broker-1", request, version)))
        stream = sock.makefile("rb")
        size, correlation_id = struct.unpack(">ii", stream.read(8))
        assert correlation_id == 5
        body = stream.read(size - 4)
    return api.response_type.decode(body[api.response_header_version(version) :], version)


def create_topics(target: Target, version: int) -> Iterator[Message]:
    topic = CreateTopicsRequest.CreatableTopic
    for _ in range(2):  # the second is refused
        yield CreateTopicsRequest(
            topics=[topic(name=f"t{version}", num_partitions=2, replication_factor=1)]
        )
    yield CreateTopicsRequest(topics=[topic(name="a/b", num_partitions=1, replication_factor=9)])


def create_partitions(target: Target, version: int) -> Iterator[Message]:
    topic = CreatePartitionsRequest.CreatePartitionsTopic
    yield CreatePartitionsRequest(topics=[topic(name="t7", count=3 + version, assignments=None)])
    yield CreatePartitionsRequest(topics=[topic(name="none", count=3, assignments=None)])


def delete_topics(target: Target, version: int) -> Iterator[Message]:
    state = DeleteTopicsRequest.DeleteTopicState
    for name in (f"t{version}", "none"):
        if version < 6:
            yield DeleteTopicsRequest(topic_names=[name])
        else:
            yield DeleteTopicsRequest(topics=[state(name=name)])


def alter_configs(target: Target, version: int) -> Iterator[Message]:
    resource = AlterConfigsRequest.AlterConfigsResource
    config = AlterConfigsRequest.AlterableConfig
    for name, value in (("retention.ms", "5"), ("retention.ms", "no number"), ("none", "1")):
        configs = [config(name=name, value=value)]
        yield AlterConfigsRequest(
            resources=[
                resource(resource_type=RESOURCE_TOPIC, resource_name="t7", configs=configs),
                resource(resource_type=RESOURCE_BROKER, resource_name="55", configs=configs),
            ]
        )


def incremental_alter_configs_of_a_topic(target: Target, version: int) -> Iterator[Message]:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = IncrementalAlterConfigsRequest.AlterableConfig
    for operation in range(5):
        configs = [config(name="cleanup.policy", config_operation=operation, value="compact")]
        yield IncrementalAlterConfigsRequest(
            resources=[resource(resource_type=RESOURCE_TOPIC, resource_name="t7", configs=configs)]
        )


def elect_leaders(target: Target, version: int) -> Iterator[Message]:
    partitions = ElectLeadersRequest.TopicPartitions
    for kind in range(3 if version else 1):
        wanted = [partitions(topic=name, partitions=[0]) for name in ("t7", "none")]
        yield ElectLeadersRequest(election_type=kind, topic_partitions=wanted)


def alter_reassignments(target: Target, version: int) -> Iterator[Message]:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition
    for replicas in ([1], [99], None):
        wanted = [partition(partition_index=0, replicas=replicas)]
        yield AlterPartitionReassignmentsRequest(topics=[topic(name="t7", partitions=wanted)])
    yield AlterPartitionReassignmentsRequest(topics=[])


def list_reassignments(target: Target, version: int) -> Iterator[Message]:
    topic = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    yield ListPartitionReassignmentsRequest(topics=None)
    yield ListPartitionReassignmentsRequest(topics=[topic(name="t7", partition_indexes=[0])])


def update_features(target: Target, version: int) -> Iterator[Message]:
    key = UpdateFeaturesRequest.FeatureUpdateKey
    for feature, level in (("group.version", 1), ("group.version", 9), ("unknown", 1)):
        yield UpdateFeaturesRequest(feature_updates=[key(feature=feature, max_version_level=level)])


def register_controller(target: Target, version: int) -> Iterator[Message]:
    request = ControllerRegistrationRequest
    listener = request.Listener(name="CONTROLLER", host="127.0.0.1", port=9)
    yield request(
        controller_id=OTHER_BROKER,
        incarnation_id=Uuid(bytes(15) + b"\x05"),
        listeners=[listener],
        features=features(request.Feature),
    )


def register_broker(target: Target, version: int) -> Iterator[Message]:
    for cluster_id in (target.cluster_id, "another cluster"):
        request = BrokerRegistrationRequest
        yield request(
            broker_id=OTHER_BROKER + version,
            cluster_id=cluster_id,
            incarnation_id=Uuid(bytes(15) + b"\x05"),
            listeners=[request.Listener(name="PLAINTEXT", host="127.0.0.1", port=9)],
            features=features(request.Feature),
            rack="a",
            log_dirs=[Uuid(bytes(14) + bytes([1, version]))],
        )


def features(kind: Callable[..., Any]) -> list[Any]:
    return [
        kind(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED.items()
    ]


def heartbeat(target: Target, version: int) -> Iterator[Message]:
    broker_id = OTHER_BROKER + 4
    epoch = epoch_of(target, broker_id)
    for want_fence, offset in ((True, 0), (False, 1 << 40), (True, 1 << 40)):
        yield BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=epoch,
            want_fence=want_fence,
            current_metadata_offset=offset,
        )
    yield BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=1 << 40)


def epoch_of(target: Target, broker_id: int) -> int:
    assert target.node.server is not None
    return target.node.server.image.brokers[broker_id].epoch


def allocate_producer_ids(target: Target, version: int) -> Iterator[Message]:
    for epoch in (epoch_of(target, 1), 1 << 40):
        yield AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)


def assign_replicas(target: Target, version: int) -> Iterator[Message]:
    request = AssignReplicasToDirsRequest
    partitions = [request.PartitionData(partition_index=0)]
    topics = [request.TopicData(topic_id=Uuid(bytes(15) + b"\x09"), partitions=partitions)]
    directories = [request.DirectoryData(id=Uuid(bytes(15) + b"\x08"), topics=topics)]
    for epoch in (epoch_of(target, 1), 1 << 40):
        yield request(broker_id=1, broker_epoch=epoch, directories=directories)


def alter_partition(target: Target, version: int) -> Iterator[Message]:
    request = AlterPartitionRequest
    data = request.PartitionData(partition_index=0)
    if version < 3:
        data.new_isr = [1]
    else:
        data.new_isr_with_epochs = [request.BrokerState(broker_id=1)]
    topics = [request.TopicData(topic_id=Uuid(bytes(15) + b"\x09"), partitions=[data])]
    for epoch in (epoch_of(target, 1), 1 << 40):
        yield request(broker_id=1, broker_epoch=epoch, topics=topics)


def unregister_broker(target: Target, version: int) -> Iterator[Message]:
    for broker_id in (OTHER_BROKER + 4, 1 << 20):
        yield UnregisterBrokerRequest(broker_id=broker_id)


def create_acls(_target: Target, _version: int) -> Iterator[Message]:
    yield CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=2,
                resource_name="t",
                principal="User:alice",
                host="*",
                operation=3,
                permission_type=3,
            )
        ]
    )


def delete_acls(_target: Target, _version: int) -> Iterator[Message]:
    each = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=2, operation=1, permission_type=1
    )
    yield DeleteAclsRequest(filters=[each])


def alter_scram_credentials(_target: Target, _version: int) -> Iterator[Message]:
    request = AlterUserScramCredentialsRequest
    upsertion = request.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=bytes(32)
    )
    yield request(upsertions=[upsertion])
    yield request(deletions=[request.ScramCredentialDeletion(name="absent", mechanism=1)])


def alter_client_quotas(_target: Target, _version: int) -> Iterator[Message]:
    request = AlterClientQuotasRequest
    alice = request.EntityData(entity_type="user", entity_name="alice")
    for key, value in (("producer_byte_rate", 1000.0), ("no_such_key", 1.0)):
        change = request.OpData(key=key, value=value, remove=False)
        yield request(entries=[request.EntryData(entity=[alice], ops=[change])])


# In an order in which later operations find what earlier ones made.
OPERATIONS: tuple[tuple[type[Message], Callable[[Target, int], Iterator[Message]]], ...] = (
    (CreateTopicsRequest, create_topics),
    (CreatePartitionsRequest, create_partitions),
    (AlterConfigsRequest, alter_configs),
    (IncrementalAlterConfigsRequest, incremental_alter_configs_of_a_topic),
    (ElectLeadersRequest, elect_leaders),
    (AlterPartitionReassignmentsRequest, alter_reassignments),
    (ListPartitionReassignmentsRequest, list_reassignments),
    (UpdateFeaturesRequest, update_features),
    (ControllerRegistrationRequest, register_controller),
    (BrokerRegistrationRequest, register_broker),
    (BrokerHeartbeatRequest, heartbeat),
    (AllocateProducerIdsRequest, allocate_producer_ids),
    (AssignReplicasToDirsRequest, assign_replicas),
    (AlterPartitionRequest, alter_partition),
    (UnregisterBrokerRequest, unregister_broker),
    (AlterUserScramCredentialsRequest, alter_scram_credentials),
    (AlterClientQuotasRequest, alter_client_quotas),
    (CreateAclsRequest, create_acls),
    (DeleteAclsRequest, delete_acls),
    (DeleteTopicsRequest, delete_topics),
)


def responses(target: Target) -> Iterator[tuple[str, Any]]:
    for request_type, requests in OPERATIONS:
        api = API[request_type.API_KEY]
        for version in range(api.min_version, api.advertised[1] + 1):
            for request in requests(target, version):
                name = f"{api.name} v{version} {request}"
                yield name, comparable(target.call(request, version))


def comparable(value: Any) -> Any:
    """The value as plain data, without the ids that are random."""
    if isinstance(value, Message) or hasattr(value, "FIELDS"):
        return {name: comparable(getattr(value, name)) for name in value.FIELDS}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, Uuid):
        return "no id" if value == Uuid(bytes(16)) else "an id"
    return value


def test_channel_every_operation_answers_as_over_a_socket() -> None:
    operations = set(get_args(ControllerRequest)) - {TokenOperation}  # made by its api's handler
    assert {request_type for request_type, _ in OPERATIONS} == operations
    quiet = {"metadata.max.idle.interval.ms": "0"}  # no record between those of the operations
    with Node(config=quiet) as first, Node(config=quiet) as second:
        local = responses(Target(first, call_locally))
        remote = responses(Target(second, call_over_socket))
        count = 0
        for (request, through_channel), (_, over_socket) in zip(local, remote, strict=True):
            assert through_channel == over_socket, request
            count += 1
    assert count > 100


def test_channel_operation_takes_effect_before_its_response() -> None:
    with Node() as node:
        target = Target(node, call_locally)
        for request in create_topics(target, 7):
            target.call(request, 7)
        assert node.server is not None
        assert "t7" in node.server.image.topics_by_name


def test_channel_unencodable_request_is_refused() -> None:
    with Node() as node:
        topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1 << 40)
        with pytest.raises(EncodingError, match="CreateTopicsRequest v7"):
            call_locally(node, CreateTopicsRequest(topics=[topic]), 7)


def test_raise_error_with_an_unknown_code_raises_unknown_server_error() -> None:
    with pytest.raises(KafkaError) as raised:
        raise_error(CreateTopicsResponse.CreatableTopicResult(error_code=150))
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_raise_error_with_code_raises_it() -> None:
    raise_error(BrokerHeartbeatResponse())
    with pytest.raises(KafkaError) as raised:
        raise_error(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


class FakeChannel:
    """Answers each resource of IncrementalAlterConfigs with success, and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[IncrementalAlterConfigsRequest] = []

    async def send(
        self, request: IncrementalAlterConfigsRequest, response_type: Any, **_: Any
    ) -> IncrementalAlterConfigsResponse:
        self.requests.append(request)
        answer = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
        return IncrementalAlterConfigsResponse(
            responses=[
                answer(resource_type=r.resource_type, resource_name=r.resource_name)
                for r in request.resources
            ]
        )


def test_config_handler_other_brokers_resource_is_refused_and_not_forwarded() -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=RESOURCE_BROKER, resource_name=name, configs=[]
            )
            for name in ("1", "2", "", "one")
        ]
    )
    channel = FakeChannel()
    node = SimpleNamespace(node_id=1, channel=channel)
    context: Any = SimpleNamespace(services=node, version=1, connection=None, throttle_ms=0)
    response = trio.run(incremental_alter_configs, context, request)
    told = [(answer.error_code, answer.error_message) for answer in response.responses]
    assert told == [
        (0, ""),
        (42, "Unexpected broker id, expected 1, but received 2"),
        (0, ""),
        (42, "Node id must be an integer, but it is: one"),
    ]
    (forwarded,) = channel.requests
    assert [resource.resource_name for resource in forwarded.resources] == ["1", ""]


def test_forwarded_request_carries_the_clients_principal_and_host() -> None:
    seen: list[Any] = []

    class Dispatcher:
        def decode(self, peer: Any, frame: bytearray) -> Any:
            seen.append(peer)
            route = SimpleNamespace(handler=lambda context, request: CreateTopicsResponse())
            return SimpleNamespace(route=route, request=None, started_at=0.0, api_key=19)

        def encode(self, context: Any, response: Message) -> list[bytes]:
            return [bytes(9), response.encode(7)]

    from barnabas.server.controller_channel.local_controller import LocalControllerChannel

    channel = LocalControllerChannel(Dispatcher(), client_id="broker-1")  # pyright: ignore
    peer: Any = SimpleNamespace(principal=Principal("User", "alice"), client_host="10.0.0.7")
    client: Any = SimpleNamespace(connection=peer, version=7, client_id="c")

    async def send() -> None:
        request = CreateTopicsRequest()
        await channel.send(request, CreateTopicsResponse, on_behalf_of=client)
        await channel.send(request, CreateTopicsResponse, version=7)

    trio.run(send)
    assert [(str(peer.principal), peer.client_host) for peer in seen] == [
        ("User:alice", "10.0.0.7"),
        ("Node:local", "127.0.0.1"),
    ]
