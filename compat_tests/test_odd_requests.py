"""Requests that client libraries do not send: both servers answer them alike.

The same requests were sent to barnabas and to Apache Kafka and every field compared.
"""

import struct
import time

import pytest
from crc32c import crc32c

from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.types import ZERO_UUID, Uuid
from compat_tests import wire

INVALID = ErrorCode.INVALID_REQUEST
TOPIC, BROKER = 2, 4  # ConfigResource.Type
NOT_THERE = Uuid(b"\x01" * 16)


def topic_id(bootstrap: str, topic: str) -> Uuid:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    return wire.call(bootstrap, request, 13).topics[0].topic_id


def create(bootstrap: str, *counts: tuple[str, int], validate_only: bool = False):
    topics = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in counts
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=validate_only)
    return {topic.name: topic for topic in wire.call(bootstrap, request, 7).topics}


def delete(bootstrap: str, *topics: tuple[str | None, Uuid]) -> list[tuple[str | None, int]]:
    states = [DeleteTopicsRequest.DeleteTopicState(name=n, topic_id=i) for n, i in topics]
    answer = wire.call(bootstrap, DeleteTopicsRequest(topics=states, timeout_ms=10_000), 6)
    return sorted(((r.name, r.error_code) for r in answer.responses), key=str)


def test_the_metadata_topic_cannot_be_created(bootstrap, unique) -> None:
    other = unique("beside")
    answers = create(bootstrap, ("__cluster_metadata", 1), (other, 1))
    assert answers["__cluster_metadata"].error_code == INVALID
    assert answers[other].error_code == 0


def test_a_request_for_too_many_partitions_makes_none_of_its_topics(bootstrap, unique) -> None:
    small, large = unique("small"), unique("large")
    answers = create(bootstrap, (small, 1), (large, 10_000))
    assert {a.error_code for a in answers.values()} == {ErrorCode.POLICY_VIOLATION}
    answer = metadata(bootstrap, 12, (small, ZERO_UUID))
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([9_999], None),
        ([10_000], "Unable to perform excessively large batch operation."),
        ([5_000, 4_999], "Unable to perform excessively large batch operation."),
        ([5_000, 4_998], None),
        ([10_000, 1], "Excessively large number of partitions per request."),
    ],
)
def test_create_topics_with_more_than_ten_thousand_records_is_refused(
    bootstrap, unique, counts, message
) -> None:
    topics = [(unique("large"), count) for count in counts]
    answers = create(bootstrap, *topics, validate_only=True).values()
    code = 0 if message is None else ErrorCode.POLICY_VIOLATION
    assert [(t.error_code, t.error_message) for t in answers] == [(code, message)] * len(counts)


@pytest.mark.barnabas_only  # Kafka answers UNKNOWN_SERVER_ERROR, but has added 10,000 of them
def test_too_many_further_partitions_are_refused_as_a_whole(bootstrap, topics) -> None:
    topic = topics.create("grown")
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(
        name=topic, count=10_002, assignments=None
    )
    answer = wire.call(bootstrap, CreatePartitionsRequest(topics=[wanted]), 3)
    assert [each.error_code for each in answer.results] == [ErrorCode.POLICY_VIOLATION]
    assert len(metadata(bootstrap, 12, (topic, ZERO_UUID)).topics[0].partitions) == 1


def test_new_topic_names_collide_only_with_existing_topics(bootstrap, unique) -> None:
    name = unique("collide")
    answers = create(bootstrap, (f"{name}.a", 1), (f"{name}_a", 1))
    assert {answer.error_code for answer in answers.values()} == {0}
    twin = create(bootstrap, (f"{name}.a_b", 1), validate_only=True)[f"{name}.a_b"]
    assert twin.error_code == 0
    create(bootstrap, (f"{name}.a.b", 1))
    late = create(bootstrap, (f"{name}.a_b", 1))[f"{name}.a_b"]
    assert late.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert late.error_message.endswith(f"collides with existing topic: {name}.a.b")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_quorum_answers_only_the_metadata_partition(bootstrap, version) -> None:
    def ask(*asked: tuple[str, list[int]]) -> DescribeQuorumResponse:
        topic = DescribeQuorumRequest.TopicData
        partition = DescribeQuorumRequest.PartitionData
        topics = [
            topic(topic_name=name, partitions=[partition(partition_index=n) for n in numbers])
            for name, numbers in asked
        ]
        return wire.call(bootstrap, DescribeQuorumRequest(topics=topics), version)

    told = ask(("__cluster_metadata", [0]))
    ((partition,),) = (topic.partitions for topic in told.topics)
    assert (told.error_code, partition.error_code) == (0, 0)
    assert partition.leader_id == partition.current_voters[0].replica_id
    assert partition.error_message == told.error_message == ""
    assert len(told.nodes) == (version >= 2)
    for wrong in ([0, 1], [1], []):
        unknown = ask(("__cluster_metadata", wrong))
        codes = [each.error_code for topic in unknown.topics for each in topic.partitions]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * len(wrong)
        assert not unknown.nodes


def test_validate_only_returns_a_topic_id(bootstrap, unique) -> None:
    name = unique("validated")
    assert create(bootstrap, (name, 1), validate_only=True)[name].topic_id != ZERO_UUID


def test_a_topic_named_twice_is_not_deleted(bootstrap, topics) -> None:
    topic = topics.create("twice")
    by_name, by_id = (topic, ZERO_UUID), (None, topic_id(bootstrap, topic))
    assert delete(bootstrap, by_name, by_id) == [(topic, INVALID)]
    assert delete(bootstrap, by_id, by_name) == [(topic, INVALID)]
    assert delete(bootstrap, by_name, by_name) == [(topic, INVALID)]
    assert delete(bootstrap, by_id, by_id) == [(None, INVALID)]
    assert delete(bootstrap, (None, ZERO_UUID), (None, ZERO_UUID)) == [(None, INVALID)] * 2
    assert delete(bootstrap, by_name) == [(topic, 0)]


def metadata(bootstrap: str, version: int, *topics: tuple[str | None, Uuid]):
    item = MetadataRequest.MetadataRequestTopic
    wanted = [item(name=name, topic_id=topic_id) for name, topic_id in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    return wire.call(bootstrap, request, version)


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_by_id_is_refused_before_version_12(bootstrap, topics, version) -> None:
    topic = topics.create("early")
    asked = topic_id(bootstrap, topic)
    for wanted in ((topic, asked), ("", asked), ("", NOT_THERE)):
        answer = metadata(bootstrap, version, wanted)
        assert [(t.error_code, t.name) for t in answer.topics] == [(INVALID, wanted[0])]
        assert (answer.brokers, answer.controller_id) == ([], -1)


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_by_id_ignores_names(bootstrap, topics, version) -> None:
    named, identified = topics.create("named"), topics.create("identified")
    answer = metadata(
        bootstrap, version, (named, ZERO_UUID), (None, topic_id(bootstrap, identified))
    )
    assert [topic.name for topic in answer.topics] == [identified]


def describe(bootstrap: str, names: list[str], limit: int, cursor: tuple[str, int] | None = None):
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None
        if cursor is None
        else DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    answer = wire.call(bootstrap, request, 0)
    found = [(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics]
    after = answer.next_cursor
    return found, after and (after.topic_name, after.partition_index)


def test_a_full_page_of_partitions_ends_before_the_next_name(bootstrap, topics) -> None:
    topic = topics.create("page", partitions=3)
    missing = f"{topic}-missing"
    assert describe(bootstrap, [topic, missing], 3) == ([(topic, 0, 3)], (missing, 0))
    assert describe(bootstrap, [topic, missing], 4) == ([(topic, 0, 3), (missing, 3, 0)], None)
    assert describe(bootstrap, [topic], 3, (topic, 3)) == ([(topic, 0, 0)], None)


def test_cursor_of_another_topic_is_refused(bootstrap, topics) -> None:
    topic = topics.create("cursor")
    refused = ([(topic, INVALID, 0)], None)
    assert describe(bootstrap, [topic], 10, ("zzz", 0)) == refused
    assert describe(bootstrap, [topic], 10, ("a", 0)) == refused
    assert describe(bootstrap, [topic], 10, (topic, -1)) == refused


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_a_broker_describes_brokers_only(bootstrap, endpoint_type, code) -> None:
    answer = wire.call(bootstrap, DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert (answer.error_code, answer.endpoint_type, answer.cluster_id) == (code, 1, "")


def test_unwritten_partition_has_a_directory(bootstrap, unique) -> None:
    topic = unique("untouched")
    assert create(bootstrap, (topic, 2))[topic].error_code == 0
    wanted = DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[0, 1, 9])
    request = DescribeLogDirsRequest(topics=[wanted])

    def sizes(answer) -> list[tuple[str, int, int]]:
        return sorted(
            (found.name, partition.partition_index, partition.partition_size)
            for result in answer.results
            for found in result.topics
            for partition in found.partitions
        )

    expected = [(topic, 0, 0), (topic, 1, 0)]
    wire.retry(bootstrap, request, 4, lambda answer: sizes(answer) == expected)


def described(bootstrap: str, kind: int, name: str, keys: list[str] | None):
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    (result,) = wire.call(bootstrap, DescribeConfigsRequest(resources=[resource]), 4).results
    return result


def test_empty_configuration_keys_request_all_properties(bootstrap, topics) -> None:
    topic = topics.create("keys")
    every, none = (described(bootstrap, TOPIC, topic, keys) for keys in (None, []))
    assert len(every.configs) > 20
    assert {config.name for config in none.configs} == {config.name for config in every.configs}


def test_describe_configs_has_one_order_for_all_clients(bootstrap, topics, server_kind) -> None:
    topic = topics.create("order")
    everything = [entry.name for entry in described(bootstrap, TOPIC, topic, None).configs]
    if server_kind == "barnabas":  # Apache Kafka has the order of a hash map
        assert everything == sorted(everything)
    asked = described(bootstrap, TOPIC, topic, everything[::-1]).configs
    assert [entry.name for entry in asked] == everything


@pytest.mark.parametrize("name", [" 1", "one", "-1", "99"])
def test_broker_describes_and_alters_only_its_own_configuration(bootstrap, name) -> None:
    assert described(bootstrap, BROKER, name, None).error_code == INVALID
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER, resource_name=name, configs=[]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    assert wire.call(bootstrap, request, 1).responses[0].error_code == INVALID


def produced(bootstrap: str, topic: str, records: bytes, number: int = 0):
    partition = ProduceRequest.PartitionProduceData(index=number, records=records)
    data = ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])
    (topic_answer,) = wire.call(bootstrap, request, 12).responses
    (answer,) = topic_answer.partition_responses
    return answer.error_code, answer.base_offset, answer.log_start_offset


def one_record(timestamp: int = 1_700_000_000_000, **fields: int) -> bytes:
    record = Record(offset=0, timestamp=timestamp, key=None, value=b"x")
    return bytes(build_batch([record], **fields))


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("log.retention.ms", "0", INVALID),
        ("log.retention.ms", "-1", 0),
        ("log.roll.ms", "0", INVALID),
        ("log.roll.jitter.ms", "-1", INVALID),
        ("max.connections.per.ip", "0", INVALID),
    ],
)
def test_a_brokers_value_that_harms_the_whole_is_refused(bootstrap, name, value, code) -> None:
    request = IncrementalAlterConfigsRequest
    change = request.AlterableConfig(name=name, config_operation=0, value=value)
    resource = request.AlterConfigsResource(
        resource_type=BROKER, resource_name="", configs=[change]
    )
    answer = wire.call(bootstrap, request(resources=[resource], validate_only=True), 1)
    assert [each.error_code for each in answer.responses] == [code]


def test_a_record_without_a_timestamp_is_never_too_old(bootstrap, topics) -> None:
    topic = topics.create("times", config={"message.timestamp.before.max.ms": "1000"})
    assert produced(bootstrap, topic, one_record())[0] == ErrorCode.INVALID_TIMESTAMP
    assert produced(bootstrap, topic, one_record(-1)) == (0, 0, 0)


def test_refused_batch_returns_the_log_start_offset(bootstrap, topics) -> None:
    topic = topics.create("start")
    batch = one_record(producer_id=7, producer_epoch=0, base_sequence=0)
    assert produced(bootstrap, topic, batch) == (0, 0, 0)
    gap = one_record(producer_id=7, producer_epoch=0, base_sequence=9)
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produced(bootstrap, topic, gap) == (out_of_order, -1, 0)
    cut = bytearray(one_record())
    cut[17] ^= 1  # the position of the crc
    assert produced(bootstrap, topic, bytes(cut)) == (ErrorCode.CORRUPT_MESSAGE, -1, -1)


def test_unknown_magic_with_any_length_is_a_corrupt_message(bootstrap, topics) -> None:
    assert produced(bootstrap, topics.create("magic"), bytes(range(256)))[0] == (
        ErrorCode.CORRUPT_MESSAGE
    )


def test_a_batch_cannot_claim_more_records_than_it_has_room_for(bootstrap, topics) -> None:
    many = bytearray(one_record())
    struct.pack_into(">i", many, 23, 2**31 - 2)  # the position of the last offset delta
    struct.pack_into(">i", many, 57, 2**31 - 1)  # the position of the record count
    struct.pack_into(">I", many, 17, crc32c(bytes(many[21:])))
    answer = produced(bootstrap, topics.create("claims"), bytes(many))
    assert answer == (ErrorCode.INVALID_RECORD, -1, 0)


@pytest.mark.parametrize("version", [4, 12])
def test_fetch_out_of_range_lists_no_aborted_transactions(bootstrap, unique, version) -> None:
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1024)
    topic = FetchRequest.FetchTopic(topic=unique("nowhere"), partitions=[partition])
    request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1024, topics=[topic])
    (answer,) = wire.call(bootstrap, request, version).responses[0].partitions
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.aborted_transactions == []


@pytest.mark.parametrize("version", [1, 4, 12])
def test_auto_created_topic_is_described_from_the_next_request_on(
    bootstrap, unique, version
) -> None:
    wanted = MetadataRequest.MetadataRequestTopic(name=unique("made"))
    request = MetadataRequest(topics=[wanted])
    (first,) = wire.call(bootstrap, request, version).topics
    assert (first.error_code, first.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    wire.retry(bootstrap, request, version, lambda answer: answer.topics[0].error_code == 0)


@pytest.mark.parametrize("version", [4, 9, 10])
def test_zstd_is_fetched_in_every_version(bootstrap, topics, version) -> None:
    """KIP-110 refused it before version 10; Kafka 4 accepts it, and clients rely on that."""
    topic = topics.create("zstd")
    batch = one_record(codec=Codec.ZSTD)
    assert produced(bootstrap, topic, batch) == (0, 0, 0)
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    wanted = FetchRequest.FetchTopic(topic=topic, partitions=[partition])
    request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[wanted])
    (answer,) = wire.call(bootstrap, request, version).responses[0].partitions
    assert (answer.error_code, len(answer.records)) == (0, len(batch))


def fetch(connection, topics_asked, *, version: int = 12, session=(0, -1)):
    """Fetch (topic name or id, partition, offset, maximum bytes) each; return the responses by
    partition.
    """
    by_id = version >= 13
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchRequest.FetchTopic(
                **{"topic_id" if by_id else "topic": topic},
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=most
                    )
                ],
            )
            for topic, partition, offset, most in topics_asked
        ],
    )
    answer = connection.call(request, version)
    assert answer.error_code == 0
    told = {
        partition.partition_index: (partition.error_code, len(partition.records or b""))
        for topic in answer.responses
        for partition in topic.partitions
    }
    return answer.session_id, told


def test_fetch_returns_an_oversized_batch_only_first_and_complete(bootstrap, topics) -> None:
    topic = topics.create("fit", partitions=2)
    batch = one_record()
    for number in (0, 1):
        assert produced(bootstrap, topic, batch, number)[0] == 0
    size = len(batch)
    with wire.Connection(bootstrap) as connection:
        _, told = fetch(connection, [(topic, 0, 0, 10), (topic, 1, 0, 10)])
        assert told == {0: (0, size), 1: (0, 0)}
        _, told = fetch(connection, [(topic, 0, 0, 10), (topic, 1, 0, size)])
        assert told == {0: (0, size), 1: (0, size)}


def test_fetch_session_returns_partitions_in_request_order(bootstrap, topics) -> None:
    topic = topics.create("turns", partitions=2)
    for number in (0, 1):
        assert produced(bootstrap, topic, one_record(), number)[0] == 0
    size = len(one_record())
    with wire.Connection(bootstrap) as connection:
        session_id, told = fetch(connection, [(topic, 0, 0, 10), (topic, 1, 0, 10)], session=(0, 0))
        assert told == {0: (0, size), 1: (0, 0)}
        turns = [fetch(connection, [], session=(session_id, epoch))[1] for epoch in (1, 2, 3)]
    # A partition with returned records moves to the end of the order.
    assert turns == [{0: (0, size)}, {1: (0, size)}, {0: (0, size)}]


def test_fetch_session_reports_a_deleted_topic_by_name(bootstrap, topics) -> None:
    topic = topics.create("deleted")
    asked = [(topic_id(bootstrap, topic), 0, 0, 1024)]
    with wire.Connection(bootstrap) as connection:
        session_id, told = fetch(connection, asked, version=16, session=(0, 0))
        assert told == {0: (0, 0)}
        assert delete(bootstrap, (topic, ZERO_UUID)) == [(topic, 0)]
        for epoch in range(1, 1200):
            _, told = fetch(connection, [], version=16, session=(session_id, epoch))
            if told:
                break
            time.sleep(0.05)
        assert told == {0: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)}
        _, told = fetch(connection, asked, version=16)
        assert told == {0: (ErrorCode.UNKNOWN_TOPIC_ID, 0)}


def test_each_record_with_a_future_timestamp_is_reported(bootstrap, topics) -> None:
    topic = topics.create("future")
    now_ms = time.time_ns() // 1_000_000
    records = [
        Record(offset=i, timestamp=now_ms + ahead, key=None, value=b"x")
        for i, ahead in enumerate((0, 7_200_000, 0))
    ]
    partition = ProduceRequest.PartitionProduceData(index=0, records=bytes(build_batch(records)))
    data = ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])
    (answer,) = wire.call(bootstrap, request, 12).responses[0].partition_responses
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    (told,) = answer.record_errors
    assert told.batch_index == 1
    assert told.batch_index_error_message.startswith(
        f"Timestamp {now_ms + 7_200_000} of message with offset 1 is out of range."
    )
