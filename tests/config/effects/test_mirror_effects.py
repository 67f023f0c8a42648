"""A topic becomes a mirror, is promoted, and refuses those that may not write to it."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.config.mirror_topics import PROMOTED, SOURCE
from barnabas.log import PartitionLog
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.testing import Node
from barnabas.testing.batches import batch, marker
from barnabas.testing.mirrored import placed, without_epochs
from compat_tests.wire import call, retry
from tests.config.effects import wire
from tests.config.effects.observed import observes
from tests.server import mirror_flow as flow

POLICY_VIOLATION = ErrorCode.POLICY_VIOLATION


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        assert flow.create_mirror(node.bootstrap) == 0
        yield node


def stored(node: Node) -> list[bytes]:
    assert node.server is not None
    log = node.server.replicas.partition("m", 0).log
    data = log.read(log.log_start_offset, 1 << 20, upper_bound=log.log_end_offset).read()
    return [data[at : at + header.size] for at, header in iter_batches(data)]


@observes(SOURCE, dynamic=True)
def test_only_its_flow_writes_to_a_mirror(node: Node) -> None:
    source = [
        placed(batch(b"a", producer=(900, 2, 40)), 5),
        placed(batch(b"b", producer=(901, 1, 0), transactional=True), 7),
        placed(marker(901, 1, commit=True), 8),
    ]
    answer = flow.copy(node.bootstrap, source, 0)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 5, -1)
    assert flow.copy(node.bootstrap, source, 0).error_code == 0
    assert without_epochs(stored(node)) == source
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    failures: list[str] = []
    producer.produce("m", b"x", on_delivery=lambda error, _: failures.append(error.name()))
    producer.flush(30)
    assert failures == ["POLICY_VIOLATION"]
    assert flow.offset(node.bootstrap, flow.LATEST) == 9


def test_refusal_names_topic_flow_and_command(node: Node) -> None:
    assert flow.create_mirror(node.bootstrap, "n", flow="eu-to-us") == 0
    answer = flow.produce(node.bootstrap, batch(b"x"), "n")
    assert answer.error_code == POLICY_VIOLATION
    assert answer.error_message == (
        "Topic n is a mirror, and only its flow eu-to-us writes to it. To open it to producers, "
        "run: barnabas mirror promote eu-to-us --to <this cluster> --topic n"
    )


def test_transaction_cannot_include_a_mirror(node: Node) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "id"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("m", b"x")
    with pytest.raises(KafkaException, match="Policy violation"):
        producer.commit_transaction(30)
    assert flow.offset(node.bootstrap, flow.LATEST) == 0, "a marker was written"
    init = InitProducerIdRequest(transactional_id="raw", transaction_timeout_ms=60_000)
    made = retry(node.bootstrap, init, 4, lambda answer: not answer.error_code)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="raw",
        v3_and_below_producer_id=made.producer_id,
        v3_and_below_producer_epoch=made.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="m", partitions=[0])
        ],
    )
    (topic,) = call(node.bootstrap, request, 3).results_by_topic_v3_and_below
    assert topic.results_by_partition[0].partition_error_code == POLICY_VIOLATION


def test_marker_of_this_clusters_coordinator_takes_no_offset_of_a_mirror(node: Node) -> None:
    """It ends a transaction that began before the topic was a mirror."""
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="m", partition_indexes=[0])
    request = WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=5, producer_epoch=0, transaction_result=True, topics=[topic]
            )
        ]
    )
    (answer,) = call(node.bootstrap, request, 1).markers
    assert answer.topics[0].partitions[0].error_code == 0
    assert flow.offset(node.bootstrap, flow.LATEST) == 0


def test_log_start_follows_beyond_the_log_end_for_the_flow_only(node: Node) -> None:
    flow.copy(node.bootstrap, [placed(batch(b"a"), 0)], 0)
    assert flow.start_at(node.bootstrap, 50) == (0, 50)
    assert flow.start_at(node.bootstrap, 50) == (0, 50)
    ends = flow.offset(node.bootstrap, flow.EARLIEST), flow.offset(node.bootstrap, flow.LATEST)
    assert ends == (50, 50)
    assert flow.copy(node.bootstrap, [placed(batch(b"b"), 52)], 50).error_code == 0
    assert flow.create_mirror(node.bootstrap, "n", flow="other") == 0
    code, _ = flow.start_at(node.bootstrap, 50, "n")
    assert code == ErrorCode.OFFSET_OUT_OF_RANGE
    node.kill()
    node.start()
    assert flow.offset(node.bootstrap, flow.EARLIEST) == 50
    assert flow.offset(node.bootstrap, flow.LATEST) == 53


@observes(PROMOTED, dynamic=True)
def test_promotion_opens_the_topic_and_ends_its_transactions(node: Node) -> None:
    """New producers of this cluster get the ids of mirrored ones, whose epochs are higher."""
    source = [
        placed(batch(b"a", producer=(own, 9, 70), transactional=own % 2 > 0), at)
        for at, own in enumerate(range(20))
    ]
    assert flow.copy(node.bootstrap, source, 0).error_code == 0
    assert flow.offset(node.bootstrap, flow.LATEST, isolation=1) == 1
    flow.promote(node.bootstrap)
    assert flow.offset(node.bootstrap, flow.LATEST, isolation=1) == 30
    code, message = flow.alter(node.bootstrap, PROMOTED, "wire:0")
    assert (code, "written by the controller only" in str(message)) == (40, True)
    answer = flow.copy(node.bootstrap, [placed(batch(b"late"), 0)], 0)
    assert (answer.error_code, "was promoted" in answer.error_message) == (POLICY_VIOLATION, True)
    for number in range(3):
        for transactional_id in (None, f"id-{number}"):
            write(node, transactional_id)
    assert values_of(node) == [b"a"] * 10 + [b"own"] * 6
    node.kill()
    node.start()
    write(node, None)
    assert values_of(node) == [b"a"] * 10 + [b"own"] * 7


def write(node: Node, transactional_id: str | None) -> None:
    """Write a record with a new idempotent or transactional producer."""
    settings: dict[str, object] = {"bootstrap.servers": node.bootstrap}
    if transactional_id is None:
        settings["enable.idempotence"] = True
    else:
        settings["transactional.id"] = transactional_id
    producer = Producer(settings)
    if transactional_id is not None:
        producer.init_transactions(30)
        producer.begin_transaction()
    producer.produce("m", b"own")
    if transactional_id is not None:
        producer.commit_transaction(30)
    assert producer.flush(30) == 0


def values_of(node: Node) -> list[bytes]:
    """Return what a READ_COMMITTED consumer reads."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "g", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition("m", 0, 0)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            consumer.close()
            return values
        values.append(message.value())


def test_replacing_configuration_keeps_what_the_controller_wrote(node: Node) -> None:
    """AlterConfigs removes what it does not name: it promotes a mirror, and keeps the epochs."""
    assert flow.alter(node.bootstrap, SOURCE, "") == (0, None)
    config = AlterConfigsRequest.AlterableConfig(name="retention.ms", value="5")
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=flow.TOPIC, resource_name="m", configs=[config]
    )
    answer = call(node.bootstrap, AlterConfigsRequest(resources=[resource]), 2).responses[0]
    assert (answer.error_code, answer.error_message) == (0, None)
    assert node.server is not None
    assert node.server.image.topic_config("m") == {PROMOTED: "wire:1", "retention.ms": "5"}


@pytest.mark.parametrize("name", ["a b", "x" * 250, "ü"])
def test_flow_name_is_checked(node: Node, name: str) -> None:
    code, message = flow.alter(node.bootstrap, SOURCE, name)
    assert code == ErrorCode.INVALID_CONFIG
    assert "letters, digits, dots" in str(message)


def test_promoted_topic_is_closed_until_its_mirror_is_ended(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader could not write what ends it: a new producer may have a mirrored id."""
    assert flow.create_mirror(node.bootstrap, "n", flow="other") == 0

    def fail(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "cannot write")

    with monkeypatch.context() as patched:
        patched.setattr(PartitionLog, "open_transactions_of_mirror", fail)
        assert flow.offset(node.bootstrap, flow.LATEST, "n") == 0
        flow.promote(node.bootstrap, "n")
        answer = flow.produce(node.bootstrap, batch(b"x"), "n")
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert answer.error_message == "the mirror n-0 could not be ended"
    assert flow.produce(node.bootstrap, wire.batch(b"x"), "n").error_code == ErrorCode.NONE
