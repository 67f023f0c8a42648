"""Administration at random: every request that a controller takes, right and wrong ones.

The results take effect at once. Requests, responses and records pass as bytes, in the versions that
have their fields. At every step an AssertionError begins with the name of the invariant that does
not hold:

    RQ   a request fails with a KafkaError, or its response says why; nothing else is raised
    NO   a request that is refused as a whole, or only validated, changes nothing
    RP   the records, read from their bytes, give the same image; and so does a snapshot of it
    TP   topics that were created and not deleted exist, with their partitions; no others do
    CF   the configuration of a topic is what was set and not removed
    ID   no producer id is allocated twice
"""

import random
from collections.abc import Callable
from typing import Any

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.image_records import image_records
from barnabas.cluster.metadata.record_versions import encode_at, records_at
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import decode_metadata_record
from barnabas.protocol.types import Uuid
from tests.cluster.states import CLUSTER_ID, Cluster, registration, uuid

STEPS = 150
_BROKERS = 4
_TOPIC, _BROKER = 2, 4
_NAMES = ("a", "b", "c", "c.d", "c_d", "e", "", "..", "no good", "x" * 250, "__consumer_offsets")
_CONFIGS = (
    ("retention.ms", "100"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete"),
    ("min.insync.replicas", "2"),
    ("unclean.leader.election.enable", "true"),
    ("leader.replication.throttled.replicas", "0:1,0:2"),
    ("compression.type", "gzip"),
    ("retention.ms", "x"),
    ("retention.ms", None),
    ("no.such.property", "1"),
)
_BROKER_CONFIGS = (
    ("log.retention.ms", "100"),
    ("min.insync.replicas", "2"),
    ("leader.replication.throttled.rate", "1000"),
    ("log.cleaner.threads", "x"),
    ("broker.id", "7"),
    ("no.such.property", "1"),
)
_LEVELS = {
    METADATA_VERSION: (7, 17, 19, 21, 25, 27, 29, 30, 31),
    "kraft.version": (0, 1, 2),
    "eligible.leader.replicas.version": (0, 1, 2),
    "transaction.version": (0, 1, 2, 3),
    "group.version": (0, 1, 2),
    "no.such.feature": (0, 1),
}


def run(seed: int) -> None:
    """Run a seed; raises AssertionError."""
    AdminSimulation(seed).run()


class AdminSimulation:
    """A controller, what was acknowledged, and the image that is folded from the records' bytes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = Cluster(brokers=_BROKERS, racks=2)
        self.folded = _fold(MetadataImage(cluster_id=CLUSTER_ID), image_records(self.image))
        self.partitions: dict[str, int] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.ids: set[int] = set()
        self.incarnation = 100

    @property
    def image(self) -> MetadataImage:
        return self.cluster.image

    def run(self) -> None:
        """Submit requests at random, and check after each."""
        actions: list[Callable[[], None]] = [
            *[self._create] * 4,
            self._delete,
            self._create_partitions,
            *[self._alter_configs] * 3,
            *[self._reassign] * 2,
            *[self._join_isr] * 4,
            self._elect,
            self._update_features,
            *[self._change_broker] * 3,
            self._assign_directories,
            self._allocate_ids,
            self._register_controller,
        ]
        for _ in range(STEPS):
            self.random.choice(actions)()
            self._check()

    # Requests

    def _create(self) -> None:
        asked, chance = CreateTopicsRequest, self.random
        topic = asked.CreatableTopic(
            name=chance.choice(_NAMES),
            num_partitions=chance.choice([-1, 0, 1, 1, 2, 3]),
            replication_factor=chance.choice([-1, 0, 1, 2, 3, 9]),
            configs=[
                asked.CreatableTopicConfig(name=name, value=value)
                for name, value in chance.sample(_CONFIGS, chance.choice([0, 0, 1, 2]))
            ],
        )
        if chance.random() < 0.3:
            topic.num_partitions = topic.replication_factor = chance.choice([-1, -1, 1])
            topic.assignments = [
                asked.CreatableReplicaAssignment(
                    partition_index=chance.choice([number, number, 7]), broker_ids=self._replicas()
                )
                for number in range(chance.choice([1, 2]))
            ]
        topics = [topic, topic] if chance.random() < 0.05 else [topic]
        request = asked(topics=topics, validate_only=chance.random() < 0.1)
        response = self._submit(request, 7, lambda answer: [x.error_code for x in answer.topics])
        if response is None or request.validate_only:
            return
        for result in response.topics:
            if not result.error_code:
                self.partitions[result.name] = result.num_partitions
                self.configs[result.name] = {x.name: x.value for x in topic.configs}

    def _delete(self) -> None:
        asked, name = DeleteTopicsRequest, self.random.choice([*self.partitions, "unknown"])
        version = self.random.choice([5, 6])
        if version == 5:
            request = asked(topic_names=[name])
        else:
            known = self.image.topics_by_name.get(name)
            state = asked.DeleteTopicState(name=name)
            if self.random.random() < 0.5:
                topic_id = uuid(99) if known is None else known.id
                state = asked.DeleteTopicState(name=None, topic_id=topic_id)
            request = asked(topics=[state])
        response = self._submit(request, version, lambda a: [x.error_code for x in a.responses])
        if response is not None and not response.responses[0].error_code:
            del self.partitions[name], self.configs[name]

    def _create_partitions(self) -> None:
        asked, chance = CreatePartitionsRequest, self.random
        name = chance.choice([*self.partitions, "unknown"])
        count = self.partitions.get(name, 1) + chance.choice([-1, 0, 1, 2])
        topic = asked.CreatePartitionsTopic(name=name, count=count, assignments=None)
        if chance.random() < 0.3:
            made = asked.CreatePartitionsAssignment
            topic.assignments = [made(broker_ids=self._replicas())] * chance.choice([1, 2])
        request = asked(topics=[topic], validate_only=chance.random() < 0.1)
        response = self._submit(request, 3, lambda a: [x.error_code for x in a.results])
        is_changed = response is not None and not response.results[0].error_code
        if is_changed and not request.validate_only:
            self.partitions[name] = count

    def _alter_configs(self) -> None:
        chance = self.random
        if chance.random() < 0.3:
            kind, name = chance.choice([(_BROKER, ""), (_BROKER, "1"), (_BROKER, "x"), (99, "a")])
            configs = chance.sample(_BROKER_CONFIGS, chance.choice([1, 2]))
        else:
            kind, name = _TOPIC, chance.choice([*self.partitions, "unknown", ""])
            configs = chance.sample(_CONFIGS, chance.choice([1, 2]))
        if chance.random() < 0.3:
            self._set_configs(kind, name, configs)
        else:
            self._change_configs(kind, name, configs)

    def _set_configs(self, kind: int, name: str, configs: list[tuple[str, str | None]]) -> None:
        asked = AlterConfigsRequest
        given = [asked.AlterableConfig(name=key, value=value) for key, value in configs]
        resource = asked.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
        request = asked(resources=[resource], validate_only=self.random.random() < 0.1)
        response = self._submit(request, 2, lambda a: [x.error_code for x in a.responses])
        if response is None or response.responses[0].error_code or request.validate_only:
            return
        if kind == _TOPIC:
            self.configs[name] = {key: value for key, value in configs if value is not None}

    def _change_configs(self, kind: int, name: str, configs: list[tuple[str, str | None]]) -> None:
        asked = IncrementalAlterConfigsRequest
        operations = [self.random.choice([0, 0, 0, 1, 2, 3, 9]) for _ in configs]
        given = [
            asked.AlterableConfig(name=key, config_operation=operation, value=value)
            for (key, value), operation in zip(configs, operations, strict=True)
        ]
        resource = asked.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
        request = asked(resources=[resource], validate_only=self.random.random() < 0.1)
        response = self._submit(request, 1, lambda a: [x.error_code for x in a.responses])
        if response is None or response.responses[0].error_code or request.validate_only:
            return
        if kind == _TOPIC:
            known = self.configs[name]
            for (key, value), operation in zip(configs, operations, strict=True):
                if operation == 0 and value is not None:
                    known[key] = value
                elif operation == 1:
                    known.pop(key, None)
                else:  # lists are compared by the image
                    known.pop(key, None)
                    if key in self.image.topic_config(name):
                        known[key] = self.image.topic_config(name)[key]

    def _reassign(self) -> None:
        asked, chance = AlterPartitionReassignmentsRequest, self.random
        partition = asked.ReassignablePartition(
            partition_index=chance.choice([0, 0, 1, 9]),
            replicas=None if chance.random() < 0.3 else self._replicas(),
        )
        topic = asked.ReassignableTopic(
            name=chance.choice([*self.partitions, "unknown"]), partitions=[partition]
        )
        request = asked(topics=[topic], allow_replication_factor_change=chance.random() < 0.8)
        self._submit(
            request, 1, lambda a: [x.error_code for t in a.responses for x in t.partitions]
        )
        self._submit(ListPartitionReassignmentsRequest(topics=None), 0, None)

    def _join_isr(self) -> None:
        """A leader proposes an ISR: all replicas, or fewer, also with outdated epochs."""
        if not self.partitions:
            return
        asked, chance = AlterPartitionRequest, self.random
        topic = self.image.topics_by_name[chance.choice(list(self.partitions))]
        number = chance.choice(list(topic.partitions))
        state = topic.partitions[number]
        leader = self.image.brokers.get(chance.choice([state.leader, state.leader, 1]))
        if leader is None:
            return
        members = [each for each in state.replicas if each in self.image.brokers]
        members = members if chance.random() < 0.8 else members[:1]
        epochs = [self.image.brokers[each].epoch for each in members]
        partition = asked.PartitionData(
            partition_index=number,
            leader_epoch=state.leader_epoch + chance.choice([0, 0, 0, 0, -1, 1]),
            new_isr_with_epochs=[
                asked.BrokerState(broker_id=each, broker_epoch=epoch)
                for each, epoch in zip(members, epochs, strict=True)
            ],
            partition_epoch=state.partition_epoch + chance.choice([0, 0, 0, 0, -1, 1]),
        )
        data = asked.TopicData(
            topic_id=chance.choice([topic.id] * 9 + [uuid(98)]), partitions=[partition]
        )
        self._submit(
            asked(broker_id=leader.id, broker_epoch=leader.epoch, topics=[data]),
            3,
            lambda a: [x.error_code for t in a.topics for x in t.partitions],
        )

    def _elect(self) -> None:
        asked, chance = ElectLeadersRequest, self.random
        chosen = asked.TopicPartitions(
            topic=chance.choice([*self.partitions, "unknown"]), partitions=[0, 9]
        )
        request = asked(
            election_type=chance.choice([0, 0, 1, 5]),
            topic_partitions=chance.choice([None, [chosen]]),
        )
        self._submit(request, 2, None)
        self._operate(lambda: self.cluster.controller.balance_leaders(10))
        self._operate(lambda: self.cluster.controller.elect_uncleanly(10))

    def _update_features(self) -> None:
        asked, chance = UpdateFeaturesRequest, self.random
        updates = [
            asked.FeatureUpdateKey(
                feature=name,
                max_version_level=chance.choice(_LEVELS[name]),
                upgrade_type=chance.choice([1, 1, 2, 3, 0]),
            )
            for name in chance.sample(list(_LEVELS), chance.choice([1, 1, 2]))
        ]
        request = asked(feature_updates=updates, validate_only=chance.random() < 0.2)
        self._submit(request, 1, None)

    def _change_broker(self) -> None:
        """A broker is fenced, unfenced, shut down, registered again or unregistered."""
        chance, cluster = self.random, self.cluster
        broker_id = chance.randrange(1, _BROKERS + 1)
        if broker_id not in self.image.brokers or chance.random() < 0.2:
            self.incarnation += 1
            request = registration(
                broker_id,
                incarnation=self.incarnation,
                previous_epoch=chance.choice([-1, self.image.offset]),
                cluster_id=chance.choice([CLUSTER_ID] * 9 + ["another"]),
                rack=f"rack-{broker_id % 2}",
            )
            try:
                cluster.register(request)
            except KafkaError:
                return
            self._take_up(cluster.deltas[-1])
            return
        if chance.random() < 0.1:
            self._submit(UnregisterBrokerRequest(broker_id=broker_id), 0, None)
            return
        wish = chance.choice(["", "", "want_fence", "want_shut_down"])
        fields = {wish: True} if wish else {}
        self._submit(cluster.heartbeat(broker_id, **fields), 1, None)

    def _assign_directories(self) -> None:
        asked, chance = AssignReplicasToDirsRequest, self.random
        broker = chance.choice([*self.image.brokers.values()] or [None])
        if broker is None or not self.partitions:
            return
        topic = self.image.topics_by_name[chance.choice(list(self.partitions))]
        partitions = [asked.PartitionData(partition_index=number) for number in (0, 9)]
        ids: list[Uuid] = [topic.id] * 4 + [uuid(97)]
        data = asked.TopicData(topic_id=chance.choice(ids), partitions=partitions)
        directory = asked.DirectoryData(
            id=uuid(500 + broker.id + chance.choice([0, 0, 40])), topics=[data]
        )
        epoch = broker.epoch - chance.choice([0, 0, 0, 1])
        request = asked(broker_id=broker.id, broker_epoch=epoch, directories=[directory])
        self._submit(request, 0, None)

    def _allocate_ids(self) -> None:
        broker = self.random.choice([*self.image.brokers.values()] or [None])
        if broker is None:
            return
        request = AllocateProducerIdsRequest(
            broker_id=broker.id, broker_epoch=broker.epoch - self.random.choice([0, 0, 1])
        )
        response = self._submit(request, 0, None)
        if response is not None and not response.error_code:
            assert response.producer_id_start not in self.ids, "ID: allocated twice"
            self.ids.add(response.producer_id_start)

    def _register_controller(self) -> None:
        asked, self.incarnation = ControllerRegistrationRequest, self.incarnation + 1
        request = asked(
            controller_id=self.random.choice([1, 2]),
            incarnation_id=uuid(self.incarnation),
            listeners=[asked.Listener(name="CONTROLLER", host="h", port=1, security_protocol=0)],
            features=[
                asked.Feature(
                    name=METADATA_VERSION, min_supported_version=7, max_supported_version=30
                )
            ],
        )
        self._submit(request, 0, None)

    def _replicas(self) -> list[int]:
        """Return brokers of an assignment: sometimes none, unknown or repeated ones."""
        chance = self.random
        brokers = chance.sample(range(1, _BROKERS + 1), chance.choice([1, 2, 3]))
        return chance.choice([brokers] * 8 + [[], [*brokers, 9], [*brokers, brokers[0]]])

    # Submitting

    def _submit(
        self, request: Any, version: int, codes: Callable[[Any], list[int]] | None
    ) -> Any | None:
        """Submit a request as bytes; return the response from its bytes, None when it failed.

        `codes` returns the errors of a response: when all its parts failed, nothing may change.
        """
        carried = type(request).decode(request.encode(version), version)
        count = len(self.cluster.deltas)
        response = self._operate(lambda: self.cluster.controller.handle(carried, version))
        if response is None:
            return None
        changed = any(not delta.is_empty for delta in self.cluster.deltas[count:])
        answer = type(response).decode(response.encode(version), version)
        failed = codes is not None and all(codes(answer))
        is_validated = getattr(request, "validate_only", False)
        assert not (changed and (failed or is_validated)), f"NO: {request} changed the image"
        return answer

    def _operate(self, operation: Callable[[], Any]) -> Any | None:
        """Carry out an operation in all its runs; return the response, None for a KafkaError."""
        while True:
            try:
                result = operation()
            except KafkaError:
                return None
            except Exception as error:
                raise AssertionError(f"RQ: {type(error).__name__}: {error}") from error
            self.cluster.take(result)
            if result.kraft_version is not None:
                self.cluster.kraft_version = result.kraft_version
            self._take_up(self.cluster.deltas[-1], result.records)
            if result.is_complete:
                return result.response

    def _take_up(self, delta: MetadataDelta, records: list[Message] | None = None) -> None:
        """Fold the records of an operation, read from their bytes."""
        if records is None:  # of a registration: the image is taken as it is
            self.folded = _fold(MetadataImage(cluster_id=CLUSTER_ID), image_records(self.image))
            return
        level = self.folded.features.get(METADATA_VERSION, 0)
        stated = (encode_at(record, level) for record in records_at(records, level))
        self.folded = _fold(self.folded, map(decode_metadata_record, stated))

    # Checks

    def _check(self) -> None:
        found = {topic.name: len(topic.partitions) for topic in self.image.topics_by_name.values()}
        assert found == self.partitions, f"TP: {found}, not {self.partitions}"
        for name, values in self.configs.items():
            assert dict(self.image.topic_config(name)) == values, f"CF: of {name}"
        mine, folded = _described(self.image), _described(self.folded)
        assert mine == folded, "RP: the records give another image"
        again = _fold(MetadataImage(cluster_id=CLUSTER_ID), image_records(self.image))
        assert _described(again) == mine, "RP: the snapshot gives another image"


def _fold(image: MetadataImage, records: Any) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset + 1, 1)


def _described(image: MetadataImage) -> list[str]:
    """Return the image as texts in one order, so that they can be compared."""
    return sorted(map(repr, image_records(image)))
