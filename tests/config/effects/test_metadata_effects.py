"""Properties of topics, brokers and fetches, observed in answers on the wire."""

import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.cluster.metadata.image import PartitionImage
from barnabas.cluster.metadata.stepwise import run_through
from barnabas.cluster.replication.partition import Partition
from barnabas.config import NodeConfig, TopicConfig
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.records.metadata_records import ConfigRecord, FenceBrokerRecord
from barnabas.server.api.handlers.data import fetch_handler
from barnabas.testing import Node
from tests.cluster.replication.fake_host import FakeHost
from tests.cluster.test_reassignments import Case
from tests.config.effects.observed import observes
from tests.config.effects.wire import (
    Wire,
    alter,
    batch,
    create,
    eventually,
    happens,
    init_producer,
    node_with,
    produce,
)
from tests.log.logs import TOPIC_ID, new_log, open_volume
from tests.server.api.data_broker import DataBroker

TOPIC = 2


def metadata(wire: Wire, *topics: str) -> Any:
    names = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return wire.ask(MetadataRequest(topics=names, allow_auto_topic_creation=True), 9)


@observes("node.id", "broker.id", "broker.rack")
def test_identity_of_the_broker_is_in_metadata() -> None:
    for name in ("node.id", "broker.id"):
        both = {"node.id": "7", "broker.id": "7"} if name == "broker.id" else {"node.id": "7"}
        with node_with({**both, "broker.rack": "attic"}) as (_, wire):
            (broker,) = metadata(wire).brokers
            assert (broker.node_id, broker.rack) == (7, "attic")


@observes("num.partitions")
def test_topic_without_a_count_gets_the_default_count() -> None:
    with node_with({"num.partitions": "3"}) as (_, wire):
        assert create(wire, partitions=-1) == ""
        assert len(metadata(wire, "t").topics[0].partitions) == 3


@observes("default.replication.factor")
def test_topic_without_a_factor_gets_the_default_factor() -> None:
    with node_with({"default.replication.factor": "2"}) as (_, wire):
        assert create(wire).startswith("38 ")  # INVALID_REPLICATION_FACTOR


@observes("auto.create.topics.enable")
def test_topic_is_created_on_first_use_when_enabled() -> None:
    for enabled in (True, False):
        with node_with({"auto.create.topics.enable": str(enabled).lower()}) as (_, wire):
            created = happens(
                lambda: not metadata(wire, "t").topics[0].error_code, expected=enabled
            )
            assert created is enabled


@observes("delete.topic.enable")
def test_topic_is_deleted_when_enabled() -> None:
    for enabled, code in (("true", 0), ("false", 73)):
        with node_with({"delete.topic.enable": enabled}) as (_, wire):
            create(wire)
            request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000)
            assert wire.ask(request, 5).responses[0].error_code == code


@observes("max.request.partition.size.limit")
def test_partitions_of_one_answer_are_limited() -> None:
    with node_with({"max.request.partition.size.limit": "2"}) as (_, wire):
        create(wire, partitions=5)
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.TopicRequest(name="t")]
        )
        assert len(wire.ask(request, 0).topics[0].partitions) == 2


def fetch(wire: Wire, *, session_epoch: int = -1) -> Any:
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 30,
        session_epoch=session_epoch,
        topics=[
            FetchRequest.FetchTopic(
                topic="t",
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=number, fetch_offset=0, partition_max_bytes=1 << 30
                    )
                    for number in (0, 1)
                ],
            )
        ],
    )
    return wire.ask(request, 11)


@observes("fetch.max.bytes")
def test_bytes_of_one_answer_are_limited() -> None:
    sizes: list[int] = []
    for limit in ("1024", "57671680"):
        with node_with({"fetch.max.bytes": limit}) as (_, wire):
            create(wire, partitions=2)
            for _ in range(5):
                produce(wire, batch(b"v" * 800))
            answers = fetch(wire).responses[0].partitions
            sizes.append(sum(len(answer.records or b"") for answer in answers))
    assert sizes[0] < 1100 < 4000 < sizes[1]


@observes("max.incremental.fetch.session.cache.slots")
def test_fetch_session_needs_a_slot() -> None:
    for slots, is_session in (("0", False), ("10", True)):
        with node_with({"max.incremental.fetch.session.cache.slots": slots}) as (_, wire):
            create(wire, partitions=2)
            assert bool(fetch(wire, session_epoch=0).session_id) is is_session


@observes("min.insync.replicas", dynamic=True)
@pytest.mark.parametrize("way", ["static", "dynamic", "topic"])
def test_write_below_min_insync_replicas_is_refused(way: str, tmp_path: Path) -> None:
    """Observed on a partition with three replicas, of which one is in sync."""
    name = "min.insync.replicas"
    for needed, code in (("1", None), ("2", "NOT_ENOUGH_REPLICAS")):
        config = NodeConfig.load(None, {name: needed} if way == "static" else {})
        if way == "dynamic":
            config = config.with_dynamic({name: needed}, {})
        topic = TopicConfig(config, {name: needed} if way == "topic" else {})
        log = new_log(open_volume(tmp_path / needed))
        partition = Partition("t", 0, TOPIC_ID, FakeHost(1, lambda log=log: log))
        partition.update(PartitionImage((1, 2, 3), (), (1,), 1, 0, 0), topic)
        refused = None
        try:
            partition.append(
                batch(b"v"), required_acks=-1, origin="client", now_ms=int(time.time() * 1000)
            )
        except KafkaError as error:
            refused = error.code.name
        assert refused == code
        log.volume.unlock()


@observes("unclean.leader.election.enable", dynamic=True)
@pytest.mark.parametrize("way", ["static", "dynamic", "topic"])
def test_replica_out_of_sync_leads_when_unclean_election_is_enabled(way: str) -> None:
    """A reassignment whose only in-sync replica is fenced is cancelled only uncleanly."""
    name = "unclean.leader.election.enable"
    for enabled, code in (("false", ErrorCode.INVALID_REPLICA_ASSIGNMENT), ("true", 0)):
        case = Case(**({name.replace(".", "_"): enabled} if way == "static" else {}))
        if way == "dynamic":
            case.cluster.config = case.cluster.config.with_dynamic({name: enabled}, {})
        elif way == "topic":
            case.cluster.replay(
                [ConfigRecord(resource_type=TOPIC, resource_name="t", name=name, value=enabled)]
            )
        case.move([4])
        case.change(isr=[4], leader=4)
        case.cluster.replay([FenceBrokerRecord(id=4)])
        assert case.move(None)[0] == code


@observes("message.max.bytes", dynamic=True)
def test_dynamic_broker_value_reaches_logs_of_running_topics() -> None:
    """All broker synonyms of topic properties take this way to the logs."""
    with node_with({}) as (_, wire):
        create(wire)
        assert produce(wire, batch(b"v" * 5000)) == 0
        assert alter(wire, "message.max.bytes", "1000") == 0
        assert eventually(lambda: produce(wire, batch(b"v" * 5000)) == 10)  # MESSAGE_TOO_LARGE
        assert alter(wire, "message.max.bytes", "100000") == 0
        assert eventually(lambda: produce(wire, batch(b"v" * 5000)) == 0)


@observes("flush.messages", "log.flush.interval.messages", dynamic=True)
@pytest.mark.parametrize("way", ["topic", "static", "dynamic"])
def test_acknowledged_records_are_synced_with_flush_messages(way: str) -> None:
    static = {"log.flush.interval.messages": "1"} if way == "static" else {}
    with node_with(static) as (node, wire):
        create(wire, **({"flush_messages": "1"} if way == "topic" else {}))
        if way == "dynamic":
            produce(wire)
            assert recovery_point(node) == 0
            assert alter(wire, "log.flush.interval.messages", "1") == 0
            assert eventually(lambda: produce(wire) == 0 and recovery_point(node) > 0)
        else:
            assert produce(wire) == 0
            assert recovery_point(node) == 1


def recovery_point(node: Node) -> int:
    assert node.server is not None
    log = node.server.logs.get("t", 0)
    assert log is not None
    return log.recovery_point


def producers(wire: Wire) -> int:
    request = DescribeProducersRequest(
        topics=[DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])]
    )
    return len(wire.ask(request, 0).topics[0].partitions[0].active_producers)


@observes("producer.id.expiration.ms", dynamic=True)
@observes("producer.id.expiration.check.interval.ms")
def test_idle_producer_is_forgotten() -> None:
    with node_with({"producer.id.expiration.check.interval.ms": "20"}) as (_, wire):
        create(wire)
        answer = init_producer(wire)
        assert produce(wire, batch(b"v", producer=(answer.producer_id, 0, 0))) == 0
        assert producers(wire) == 1
        time.sleep(0.1)
        assert producers(wire) == 1
        assert alter(wire, "producer.id.expiration.ms", "1") == 0
        assert eventually(lambda: producers(wire) == 0)
    config = {"producer.id.expiration.ms": "1"}
    with node_with(config) as (_, wire):  # the check comes after ten minutes
        create(wire)
        answer = init_producer(wire)
        produce(wire, batch(b"v", producer=(answer.producer_id, 0, 0)))
        time.sleep(0.1)
        assert producers(wire) == 1


@observes("log.dirs", "metadata.log.dir")
def test_directories_hold_logs_and_metadata(tmp_path: Path) -> None:
    first, second, quorum = tmp_path / "first", tmp_path / "second", tmp_path / "quorum"
    node = Node(first)
    node._properties["log.dirs"] = f"{first},{second}"
    node._properties["metadata.log.dir"] = str(quorum)
    with node:
        create(Wire(node.port), partitions=2)
        for number in (0, 1):
            produce(Wire(node.port), partition=number)
    assert {path.parent for path in tmp_path.glob("*/t-*")} == {first, second}
    assert [path.parent for path in tmp_path.glob("*/__cluster_metadata-0")] == [quorum]


@observes("replica.selector.class")
def test_consumer_reads_from_the_replica_of_its_rack(tmp_path: Path) -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    for number, (given, replica) in enumerate(
        (({}, -1), ({"replica_selector_class": selector}, 2))
    ):
        broker = DataBroker(tmp_path / str(number), **given)
        broker.partition("replicated").follower_fetched(2, 0, 0)
        request = FetchRequest(
            rack_id="rack-0",
            session_epoch=-1,
            topics=[
                FetchRequest.FetchTopic(
                    topic_id=broker.topic_id("replicated"),
                    partitions=[FetchRequest.FetchPartition()],
                )
            ],
        )
        (topic,) = broker.ask(fetch_handler.fetch, request, 17).responses
        assert topic.partitions[0].preferred_read_replica == replica


@observes("replica.lag.time.max.ms")
def test_follower_leaves_the_isr_when_it_lags_for_too_long(tmp_path: Path) -> None:
    for lag_ms, is_lagging in ((500, True), (30_000, False)):
        broker = DataBroker(tmp_path / str(lag_ms), replica_lag_time_max_ms=str(lag_ms))
        broker.append(b"v", topic="replicated")
        broker.clock_ms += 600
        run_through(broker.replicas.check_isrs())
        request = broker.replicas.isr_manager.poll(1, broker.clock_ms)
        assert (request is not None) is is_lagging
