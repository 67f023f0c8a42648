"""The Metadata handler: topics by name and id, automatic creation, and what each version says."""

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.config import NodeConfig
from barnabas.config.subscriptions import ConfigSubscriptions
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.types import Uuid
from barnabas.server.api.context import AnyContext
from barnabas.server.api.handler_services import MetadataServices
from barnabas.server.api.handlers.metadata.metadata_handler import metadata
from tests.cluster.states import CLUSTER_ID
from tests.server.api.data_broker import DataBroker, FakeConnection, context

LATEST = 13
UNKNOWN_ID = Uuid(b"\x01" * 16)


class Served:
    """The handler over a fixed image, with the names that it creates."""

    def __init__(self, image: MetadataImage, **config: str) -> None:
        self.image = image
        self.created: list[str] = []
        self.settled: MetadataImage | None = None
        self.just_ended: frozenset[int] = frozenset()
        self.connection = FakeConnection()
        self.services = MetadataServices(
            image=lambda: self.image,
            settle_failures=self._settle,
            just_ended=lambda: self.just_ended,
            kraft_version=lambda: 1,
            controller_versions=lambda: None,
            settings=ConfigSubscriptions(NodeConfig.load(None, config)),
            create_topics=self._create,
        )

    async def _settle(self) -> None:
        if self.settled is not None:
            self.image = self.settled

    async def _create(self, names: list[str], client: AnyContext) -> dict[str, ErrorCode]:
        assert client.connection is self.connection  # the topics are created on its behalf
        self.created += names
        return {name: ErrorCode.INVALID_REPLICATION_FACTOR for name in names if "bad" in name}

    def ask(self, asked: MetadataRequest, version: int = LATEST) -> Any:
        called = context(self.services, asked, version, self.connection)
        return trio.run(metadata, called, asked)


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(DataBroker(tmp_path).image)


def request(*wanted: str | Uuid, **fields: Any) -> MetadataRequest:
    topics = [
        MetadataRequest.MetadataRequestTopic(topic_id=each, name=None)
        if isinstance(each, Uuid)
        else MetadataRequest.MetadataRequestTopic(name=each)
        for each in wanted
    ]
    return MetadataRequest(topics=topics, **fields)


def test_metadata_describes_brokers_topics_and_partitions(served: Served) -> None:
    response = served.ask(request("replicated"))
    assert [(b.node_id, b.port) for b in response.brokers] == [(1, 9001), (2, 9002)]
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    (topic,) = response.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "replicated", False)
    assert topic.topic_id == served.image.topics_by_name["replicated"].id
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.replica_nodes) == (1, [1, 2])
    assert (partition.isr_nodes, partition.offline_replicas) == ([1, 2], [])


@pytest.mark.parametrize(
    ("topics", "version", "count"), [(None, 1, 4), (None, LATEST, 4), ([], 0, 4), ([], 1, 0)]
)
def test_metadata_without_names_describes_all_topics_or_none(
    served: Served, topics: list[Any] | None, version: int, count: int
) -> None:
    assert len(served.ask(MetadataRequest(topics=topics), version).topics) == count


def test_metadata_creates_missing_topics_and_reports_what_failed(served: Served) -> None:
    topics = served.ask(request("new", "t", "bad", "in/valid")).topics
    assert served.created == ["new", "bad", "in/valid"]
    assert [(topic.name, topic.error_code) for topic in topics] == [
        ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0),
        ("bad", ErrorCode.INVALID_REPLICATION_FACTOR),
        ("in/valid", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


def test_metadata_creates_nothing_unless_client_and_broker_allow_it(served: Served) -> None:
    served.ask(request("new", allow_auto_topic_creation=False))
    assert served.created == []
    closed = Served(served.image, **{"auto.create.topics.enable": "false"})
    assert closed.ask(request("new")).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert closed.created == []


def test_metadata_by_id_finds_topics_and_creates_none(served: Served) -> None:
    known = served.image.topics_by_name["t"].id
    topics = served.ask(request(known, UNKNOWN_ID)).topics
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in topics] == [
        ("t", known, 0),
        (None, UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert served.created == []


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", [None, "t"])
def test_metadata_by_id_before_v12_is_refused(
    served: Served, name: str | None, version: int
) -> None:
    asked = MetadataRequest.MetadataRequestTopic(topic_id=UNKNOWN_ID, name=name)
    with pytest.raises(KafkaError) as caught:
        served.ask(MetadataRequest(topics=[asked]), version)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_metadata_names_a_repeated_topic_once(served: Served) -> None:
    assert [topic.name for topic in served.ask(request("t", "t")).topics] == ["t"]


def test_metadata_of_a_fenced_leader_has_no_leader(served: Served) -> None:
    fenced = attrs.evolve(served.image.brokers[1], fenced=True)
    served.image = attrs.evolve(served.image, brokers={**served.image.brokers, 1: fenced})
    response = served.ask(request("t"))
    assert [broker.node_id for broker in response.brokers] == [2]
    assert response.controller_id == 2
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.offline_replicas == [1]


def test_metadata_waits_for_the_next_leaders_of_a_broker_that_has_just_ended(
    served: Served,
) -> None:
    fenced = attrs.evolve(served.image.brokers[2], fenced=True)
    served.settled = attrs.evolve(served.image, brokers={**served.image.brokers, 2: fenced})
    assert [broker.node_id for broker in served.ask(request("t")).brokers] == [1]


def test_metadata_lists_a_broker_that_has_just_ended(served: Served) -> None:
    """librdkafka closes its handle of a broker that is not listed, while its leaders move."""
    fenced = attrs.evolve(served.image.brokers[1], fenced=True)
    served.image = attrs.evolve(served.image, brokers={**served.image.brokers, 1: fenced})
    served.just_ended = frozenset({1})
    response = served.ask(request("t"))
    assert sorted(broker.node_id for broker in response.brokers) == [1, 2]
    (partition,) = response.topics[0].partitions
    assert (partition.leader_id, partition.offline_replicas) == (-1, [1])


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)]
)
def test_metadata_over_a_listener_that_the_leader_lacks_says_so(
    served: Served, version: int, code: ErrorCode
) -> None:
    served.connection.listener_name = "INTERNAL"
    response = served.ask(request("t"), version)
    assert response.brokers == []
    assert response.topics[0].partitions[0].error_code == code


def test_metadata_includes_authorized_operations_on_request(served: Served) -> None:
    plain = served.ask(request("t"), 8)
    assert plain.topics[0].topic_authorized_operations == -(1 << 31)
    asked = request(
        "t",
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = served.ask(asked, 8)
    assert response.topics[0].topic_authorized_operations == 3576
    assert response.cluster_authorized_operations == 8096


@pytest.mark.parametrize(("node_id", "named"), [("1", 1), ("2", 2), ("3", 1)])
def test_metadata_names_the_broker_that_answers_as_controller(
    tmp_path: Path, node_id: str, named: int
) -> None:
    served = Served(DataBroker(tmp_path).image, **{"node.id": node_id})
    assert served.image.controller_id == 1
    assert served.ask(request()).controller_id == named


def test_metadata_without_an_alive_broker_names_no_controller(served: Served) -> None:
    fenced = {
        number: attrs.evolve(broker, fenced=True) for number, broker in served.image.brokers.items()
    }
    served.image = attrs.evolve(served.image, brokers=fenced)
    response = served.ask(request())
    assert (response.brokers, response.controller_id) == ([], -1)
