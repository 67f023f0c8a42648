"""The index of partitions and the persistent map, against a walk and a dictionary."""

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import DIRECTORY_UNASSIGNED, MetadataImage
from barnabas.cluster.metadata.partition_index import PartitionIndex, PartitionKey
from barnabas.cluster.metadata.persistent_map import PersistentMap, persistent
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.cluster.states import uuid

BROKERS = st.integers(1, 4)
SOME = st.lists(BROKERS, unique=True, max_size=4)
ANY = st.lists(BROKERS, unique=True, min_size=1, max_size=4)
DIRECTORIES = st.sampled_from([DIRECTORY_UNASSIGNED, uuid(901), uuid(902)])


class MapMachine(RuleBasedStateMachine):
    """A persistent map beside a dictionary; earlier versions must not change."""

    def __init__(self) -> None:
        super().__init__()
        self.map: PersistentMap[int, int] = PersistentMap()
        self.model: dict[int, int] = {}
        self.earlier: list[tuple[PersistentMap[int, int], dict[int, int]]] = []

    @rule(changes=st.dictionaries(st.integers(0, 60), st.none() | st.integers(0, 9), max_size=8))
    def update(self, changes: dict[int, int | None]) -> None:
        self.earlier.append((self.map, dict(self.model)))
        self.map = self.map.updated(changes)
        for key, value in changes.items():
            if value is None:
                self.model.pop(key, None)
            else:
                self.model[key] = value

    @rule(count=st.integers(1, 200))
    def fill(self, count: int) -> None:
        self.update(dict.fromkeys(range(count), 5))

    @invariant()
    def equals_the_dictionary(self) -> None:
        assert self.map == self.model
        assert len(self.map) == len(self.model)
        assert {*self.map} == {*self.model}
        assert dict(self.map.items()) == self.model
        assert sorted(self.map.values()) == sorted(self.model.values())
        for key in range(0, 70, 7):
            assert (key in self.map) == (key in self.model)
            assert self.map.get(key) == self.model.get(key)

    @invariant()
    def earlier_versions_are_unchanged(self) -> None:
        for version, model in self.earlier[-3:]:
            assert version == model


TestPersistentMap = MapMachine.TestCase
TestPersistentMap.settings = settings(max_examples=60, stateful_step_count=30)


def test_persistent_map_keeps_the_order_of_keys() -> None:
    numbers = persistent({number: number for number in range(100)})
    changed = numbers.updated({5: 50}).updated({7: None, 200: 1})
    assert list(changed) == [*range(7), *range(8, 100), 200]
    assert list(changed.items())[5] == (5, 50)
    with pytest.raises(KeyError):
        changed[7]
    assert persistent(changed) is changed


class IndexMachine(RuleBasedStateMachine):
    """Random metadata records, in batches; the index follows them from image to image."""

    def __init__(self) -> None:
        super().__init__()
        self.image = MetadataImage()
        assert self.image.partition_index.leaderless == {}
        self.pending: list[Message] = []
        self.topics: dict[int, int] = {}
        self.offset = 0

    @rule(
        topic=st.integers(1, 4),
        partitions=st.lists(st.tuples(ANY, ANY, SOME, SOME, DIRECTORIES), min_size=1, max_size=3),
    )
    def create(self, topic: int, partitions: list[tuple[list[int], ...]]) -> None:
        if topic in self.topics:
            return
        self.pending.append(TopicRecord(name=f"t{topic}", topic_id=uuid(topic)))
        for number, (replicas, isr, elr, adding, directory) in enumerate(partitions):
            record = PartitionRecord(
                partition_id=number,
                topic_id=uuid(topic),
                replicas=replicas,
                isr=isr,
                leader=isr[0],
                eligible_leader_replicas=elr,
                adding_replicas=adding,
                directories=[directory for _ in replicas],
            )
            self.pending.append(record)
        self.topics[topic] = len(partitions)

    @rule(
        topic=st.integers(1, 4),
        number=st.integers(0, 2),
        isr=st.none() | SOME,
        leader=st.integers(-2, 4),
        elr=st.none() | SOME,
        replicas=st.none() | ANY,
        adding=st.none() | SOME,
        directory=st.none() | DIRECTORIES,
    )
    def change(self, topic: int, number: int, leader: int, **lists: list[int] | None) -> None:
        if number >= self.topics.get(topic, 0):
            return
        directory = lists.pop("directory")
        record = PartitionChangeRecord(
            topic_id=uuid(topic),
            partition_id=number,
            leader=leader,
            isr=lists["isr"],
            eligible_leader_replicas=lists["elr"],
            replicas=lists["replicas"],
            adding_replicas=lists["adding"],
        )
        if directory is not None and record.replicas is not None:
            record.directories = [directory for _ in record.replicas]  # pyright: ignore
        self.pending.append(record)

    @rule(topic=st.integers(1, 4))
    def delete(self, topic: int) -> None:
        if self.topics.pop(topic, None) is not None:
            self.pending.append(RemoveTopicRecord(topic_id=uuid(topic)))

    @rule(topic=st.none() | st.integers(1, 4))
    def clear_elr(self, topic: int | None) -> None:
        if topic is None or topic in self.topics:
            name = "" if topic is None else f"t{topic}"
            self.pending.append(ClearElrRecord(topic_name=name))

    @rule()
    def apply(self) -> None:
        delta = MetadataDelta(self.image)
        for record in self.pending:
            delta.replay(record)
        self.offset += len(self.pending)
        self.pending = []
        self.image = delta.apply(self.offset, 1)
        assert self.image.has_partition_index
        assert self.image.partition_index == PartitionIndex.of(self.image.topics_by_id)
        self.compare_with_a_walk()

    def compare_with_a_walk(self) -> None:
        index = self.image.partition_index
        walk = [
            (PartitionKey(topic.id, number), partition)
            for topic in self.image.topics_by_id.values()
            for number, partition in topic.partitions.items()
        ]
        for broker in range(1, 5):
            assert {*index.isr_members(broker)} == {k for k, p in walk if broker in p.isr}
            assert {*index.elr_members(broker)} == {k for k, p in walk if broker in p.elr}
            assert index.has_leaderships(broker) == any(p.leader == broker for _, p in walk)
        for directory in (uuid(901), uuid(902)):
            expected = {k for k, p in walk if directory in p.directories}
            assert {*index.in_directory(directory)} == expected
        assert {*index.leaderless} == {k for k, p in walk if p.leader == -1}
        assert {*index.imbalanced} == {k for k, p in walk if p.leader != p.replicas[0]}
        assert {*index.reassigning} == {
            k for k, p in walk if p.adding_replicas or p.removing_replicas
        }


TestPartitionIndex = IndexMachine.TestCase
TestPartitionIndex.settings = settings(max_examples=80, stateful_step_count=30)


def test_index_is_made_again_for_an_image_with_other_topics() -> None:
    image = MetadataImage()
    assert not image.has_partition_index
    assert {*image.partition_index.leaderless} == set()
    other = attrs.evolve(image, topics_by_id={})
    assert not other.has_partition_index


@given(st.lists(SOME, min_size=1, max_size=3))
def test_clear_elr_starts_a_partition_epoch_where_there_is_an_elr(elrs: list[list[int]]) -> None:
    """Brokers and controllers of Apache Kafka count it, so an epoch less would never match."""
    delta = MetadataDelta(MetadataImage())
    delta.replay(TopicRecord(name="t", topic_id=uuid(1)))
    for number, elr in enumerate(elrs):
        record = PartitionRecord(
            partition_id=number, topic_id=uuid(1), eligible_leader_replicas=elr, partition_epoch=7
        )
        delta.replay(record)
    second = MetadataDelta(delta.apply(0, 1))
    second.replay(ClearElrRecord(topic_name="t"))
    partitions = second.apply(1, 1).topics_by_name["t"].partitions
    assert [partitions[n].partition_epoch for n in range(len(elrs))] == [
        8 if elr else 7 for elr in elrs
    ]
    assert not any(partitions[number].elr for number in range(len(elrs)))
