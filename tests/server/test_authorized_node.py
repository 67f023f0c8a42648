"""A node with an authorizer: start, changes of ACLs in the course of a session, forwarding.

On a PLAINTEXT listener every client is User:ANONYMOUS. The tests connect from 127.0.0.1 as the
administrator, by ACLs for that address, and from 127.0.0.2 as a client.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.envelope import EnvelopeRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.principal import DefaultPrincipalData
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.server.node_failures import StartupError
from barnabas.testing import Node
from barnabas.testing.batches import batch
from barnabas.testing.free_ports import free_ports
from barnabas.testing.mirrored import as_sent, placed
from compat_tests.wire import Connection
from tests.server import mirror_flow

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
OPEN_UNTIL_ACLS = {**AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
ADMIN, CLIENT = "127.0.0.1", "127.0.0.2"
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
ANY, ALL, READ, WRITE, CREATE, DESCRIBE, LITERAL, ALLOW = 1, 2, 3, 4, 5, 8, 3, 3
READING_TOPIC = (TOPIC, "shown", READ)
NO_ACCESS = 29


def call(bootstrap: str, request: Any, version: int, source: str = ADMIN) -> Any:
    with Connection(bootstrap, source=source) as connection:
        return connection.call(request, version)


def add_acls(bootstrap: str, *acls: tuple[int, str, int], host: str = CLIENT) -> None:
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=kind,
            resource_name=name,
            principal="User:ANONYMOUS",
            host=host,
            operation=operation,
            permission_type=ALLOW,
        )
        for kind, name, operation in acls
    ]
    answer = call(bootstrap, CreateAclsRequest(creations=creations), 3)
    assert [each.error_code for each in answer.results] == [0] * len(acls)


def remove_acls(bootstrap: str) -> None:
    """Remove the client's ACLs."""
    each = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=CLIENT,
        operation=ANY,
        permission_type=ANY,
    )
    call(bootstrap, DeleteAclsRequest(filters=[each]), 3)


def described_acls(bootstrap: str) -> int:
    request = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    return sum(len(each.acls) for each in call(bootstrap, request, 3).resources)


def create_topic(bootstrap: str, name: str, source: str = ADMIN) -> int:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return call(bootstrap, CreateTopicsRequest(topics=[topic]), 7, source).topics[0].error_code


def leave_rights_to_the_administrator(bootstrap: str) -> None:
    add_acls(
        bootstrap,
        (TOPIC, "*", ALL),
        (GROUP, "*", ALL),
        (TRANSACTIONAL_ID, "*", ALL),
        (CLUSTER, "kafka-cluster", ALL),
        host=ADMIN,
    )


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A node with two topics and an administrator."""
    with Node(config=OPEN_UNTIL_ACLS) as node:
        assert [create_topic(node.bootstrap, name) for name in ("shown", "hidden")] == [0, 0]
        leave_rights_to_the_administrator(node.bootstrap)
        yield node.bootstrap


def test_node_without_a_possible_administrator_does_not_start() -> None:
    with pytest.raises(StartupError, match=r"super\.users is empty.*set super\.users to"):
        Node(config=AUTHORIZER).start()


def test_node_starts_by_an_acl_that_allows_to_change_acls() -> None:
    with Node(config={**AUTHORIZER, "super.users": "User:ANONYMOUS"}) as node:
        leave_rights_to_the_administrator(node.bootstrap)
        node.stop()
        again = Node(node.data, AUTHORIZER)
        with again:
            assert described_acls(again.bootstrap) == 4
            assert create_topic(again.bootstrap, "t") == 0
            assert create_topic(again.bootstrap, "u", CLIENT) == NO_ACCESS


def test_node_serves_its_own_controller_without_rights_of_anonymous() -> None:
    """The broker registers, and creates topics for its coordinators, as the node itself."""
    with Node(config={**AUTHORIZER, "super.users": "User:admin"}) as node:
        assert create_topic(node.bootstrap, "t") == NO_ACCESS
        assert node.server is not None
        assert not node.server.image.brokers[1].fenced


def test_envelope_needs_the_right_of_a_broker() -> None:
    """It names a super user as the client whose request it carries."""
    (port,) = free_ports(1)
    listeners = {"listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}"}
    super_users = {"super.users": "User:admin"}
    with Node(config={**AUTHORIZER, **super_users, **listeners}) as node:
        topic = CreateTopicsRequest.CreatableTopic(
            name="forged", num_partitions=1, replication_factor=1
        )
        parts = encode_request(1, "c", CreateTopicsRequest(topics=[topic]), 7)
        principal = DefaultPrincipalData(type="User", name="admin").encode(0)
        request = EnvelopeRequest(
            request_data=b"".join(map(bytes, parts))[4:],
            request_principal=b"\0\0" + principal,
            client_host_address=bytes([127, 0, 0, 1]),
        )
        answer = call(f"127.0.0.1:{port}", request, 0)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert node.server is not None
        assert "forged" not in node.server.image.topics_by_name


def fetch(session_id: int = 0, epoch: int = 0, *names: str) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchRequest.FetchTopic(
                topic=name,
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=0, fetch_offset=0, partition_max_bytes=1 << 20
                    )
                ],
            )
            for name in names
        ],
    )


def codes(response: Any) -> dict[str, int]:
    return {topic.topic: topic.partitions[0].error_code for topic in response.responses}


def test_session_loses_a_topic_whose_read_right_is_removed(bootstrap: str) -> None:
    """A request of a session does not name its partitions, and the unchanged are not read."""
    add_acls(bootstrap, READING_TOPIC)
    with Connection(bootstrap, source=CLIENT) as client:
        first = client.call(fetch(0, 0, "shown", "hidden"), 12)
        assert codes(first) == {"shown": 0, "hidden": NO_ACCESS}
        session = first.session_id
        assert codes(client.call(fetch(session, 1), 12)) == {"hidden": NO_ACCESS}
        remove_acls(bootstrap)
        both = {"shown": NO_ACCESS, "hidden": NO_ACCESS}
        assert codes(client.call(fetch(session, 2), 12)) == both
        add_acls(bootstrap, READING_TOPIC)
        assert codes(client.call(fetch(session, 3), 12)) == {"shown": 0, "hidden": NO_ACCESS}


def test_records_of_a_denied_topic_are_not_sent_to_a_forged_follower(bootstrap: str) -> None:
    records = build_batch([Record(offset=0, timestamp=0, key=None, value=b"secret")])
    data = ProduceRequest.PartitionProduceData(index=0, records=bytes(records))  # type: ignore[arg-type]
    topic = ProduceRequest.TopicProduceData(name="hidden", partition_data=[data])
    call(bootstrap, ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]), 9)
    request = fetch(0, 0, "hidden")
    request.replica_id = 1
    answer = call(bootstrap, request, 12, CLIENT).responses[0].partitions[0]
    assert (answer.error_code, bytes(answer.records or b"")) == (NO_ACCESS, b"")
    answer = call(bootstrap, request, 12).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER  # allowed, and no such replica


def test_regular_expression_finds_only_topics_that_the_member_may_see(bootstrap: str) -> None:
    add_acls(bootstrap, (GROUP, "g", READ), (TOPIC, "shown", DESCRIBE))
    with Connection(bootstrap, source=CLIENT) as client:
        finding = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        while client.call(finding, 4).coordinators[0].error_code:
            pass
        assigned, epoch = None, 0
        while assigned is None or not assigned.topic_partitions:
            beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
            if epoch == 0:
                beat.rebalance_timeout_ms = 30_000
                beat.subscribed_topic_regex = "shown|hidden"
                beat.topic_partitions = []
            answer = client.call(beat, 1)
            assigned, epoch = answer.assignment, answer.member_epoch
    names = [MetadataRequest.MetadataRequestTopic(name="shown")]
    (topic,) = call(bootstrap, MetadataRequest(topics=names), 12).topics
    assert [each.topic_id for each in assigned.topic_partitions] == [topic.topic_id]


def test_flow_of_a_mirror_is_a_principal_and_not_a_client_id(bootstrap: str) -> None:
    """Its batches have other producers' transactions, for which it needs no transactional id."""
    for topic, name in (("by-name", "ANONYMOUS"), ("by-client-id", mirror_flow.FLOW)):
        assert mirror_flow.create_mirror(bootstrap, topic, flow=name) == 0
    records = as_sent([placed(batch(b"a", producer=(5, 1, 3), transactional=True), 7)], 0)

    def write(topic: str) -> int:
        data = ProduceRequest.PartitionProduceData(index=0, records=records)
        named = ProduceRequest.TopicProduceData(name=topic, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[named])
        answer = call(bootstrap, request, 9, CLIENT).responses[0].partition_responses[0]
        return answer.error_code

    assert write("by-name") == NO_ACCESS
    add_acls(bootstrap, (TOPIC, "by-name", WRITE), (TOPIC, "by-client-id", WRITE))
    assert write("by-name") == ErrorCode.NONE
    assert write("by-client-id") == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    records = as_sent([placed(batch(b"a"), 8)], 8)
    assert write("by-name") == ErrorCode.NONE
    assert write("by-client-id") == ErrorCode.POLICY_VIOLATION
