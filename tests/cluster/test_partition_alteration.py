"""AlterPartition: which proposed ISRs the controller accepts, and what it answers."""

from typing import Any

import attrs
import pytest

from barnabas.cluster.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.cluster.metadata.image import PartitionImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
)
from tests.cluster.states import Cluster, registration, uuid

RECOVERED, RECOVERING = 0, 1


class Case:
    """A topic `t` whose partition 0 has the replicas 1, 2, 3, led by 1 with the ISR 1, 2."""

    def __init__(self, **fields: Any) -> None:
        self.cluster = Cluster(brokers=4)
        self.topic_id = self.cluster.create("t", replicas=3, min_insync_replicas="2").topic_id
        first = {"replicas": [1, 2, 3], "leader": 1, "isr": [1, 2]}
        self.change(**{**first, **fields})

    @property
    def partition(self) -> PartitionImage:
        return self.cluster.image.topics_by_name["t"].partitions[0]

    def change(self, **fields: Any) -> None:
        record = PartitionChangeRecord(topic_id=self.topic_id, partition_id=0, **fields)
        self.cluster.replay([record])

    def epoch(self, broker_id: int) -> int:
        broker = self.cluster.image.brokers.get(broker_id)
        return 0 if broker is None else broker.epoch

    def alter(
        self, *isr: int, version: int = 3, sender: int = 1, **fields: Any
    ) -> AlterPartitionResponse.PartitionData:
        """Propose an ISR, replay the change, and return the answer."""
        return self.cluster.take(self.decide(*isr, version=version, sender=sender, **fields)[0])[1]

    def decide(
        self, *isr: int, version: int = 3, sender: int = 1, **fields: Any
    ) -> tuple[Any, list[Message]]:
        request = self.request(*isr, sender=sender, **fields)
        result = self.cluster.controller.handle(request, version)
        answer = result.response.topics[0].partitions[0]
        return attrs.evolve(result, response=(result.response, answer)), result.records

    def request(
        self, *isr: int, sender: int = 1, topic_id: Any = None, **fields: Any
    ) -> AlterPartitionRequest:
        kind = AlterPartitionRequest
        present: dict[str, Any] = {
            "partition_index": 0,
            "leader_epoch": self.partition.leader_epoch,
            "partition_epoch": self.partition.partition_epoch,
            "new_isr": list(isr),
            "new_isr_with_epochs": [
                kind.BrokerState(broker_id=each, broker_epoch=self.epoch(each)) for each in isr
            ],
        }
        data = kind.PartitionData(**{**present, **fields})
        topic = kind.TopicData(topic_id=topic_id or self.topic_id, partitions=[data])
        return kind(broker_id=sender, broker_epoch=self.epoch(sender), topics=[topic])


@pytest.mark.parametrize("version", [2, 3])
def test_alter_partition_grows_and_shrinks_the_isr_in_the_same_leader_epoch(version: int) -> None:
    case = Case()
    before = case.partition
    answer = case.alter(1, 2, 3, version=version)
    assert (answer.error_code, answer.isr, answer.leader_id) == (0, [1, 2, 3], 1)
    assert (answer.leader_epoch, answer.partition_epoch) == (
        before.leader_epoch,
        before.partition_epoch + 1,
    )
    assert case.partition.isr == (1, 2, 3)
    assert case.alter(1, version=version).isr == [1]
    assert case.partition.isr == (1,)


def test_alter_partition_to_the_present_isr_writes_no_record() -> None:
    case = Case()
    result, records = case.decide(1, 2)
    assert records == []
    assert result.response[1].partition_epoch == case.partition.partition_epoch


# What is wrong, together with what is checked later and also wrong, and the code.
ORDER = [
    ({"topic_id": uuid(99), "partition_index": 7}, ErrorCode.UNKNOWN_TOPIC_ID),
    ({"partition_index": 7, "leader_epoch": 1000}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ({"leader_epoch": 1000, "sender": 2}, ErrorCode.NOT_CONTROLLER),
    ({"partition_epoch": 1000, "leader_epoch": 0}, ErrorCode.NOT_CONTROLLER),
    ({"leader_epoch": 0, "sender": 2}, ErrorCode.FENCED_LEADER_EPOCH),
    ({"sender": 2, "partition_epoch": 0}, ErrorCode.INVALID_REQUEST),
    ({"partition_epoch": 0, "isr": [9]}, ErrorCode.INVALID_UPDATE_VERSION),
    ({"isr": [1, 9]}, ErrorCode.INVALID_REQUEST),
    ({"isr": [1, 4]}, ErrorCode.INVALID_REQUEST),
    ({"isr": [1, 1]}, ErrorCode.INVALID_REQUEST),
    ({"isr": [2, 3]}, ErrorCode.INVALID_REQUEST),
    ({"isr": []}, ErrorCode.INVALID_REQUEST),
    ({"isr": [1], "leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
    ({"isr": [1], "leader_recovery_state": 5}, ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("wrong", "code"), ORDER)
def test_alter_partition_checks_in_kafkas_order(wrong: dict[str, Any], code: ErrorCode) -> None:
    """Planted once: a proposal that builds on another partition epoch was accepted."""
    case = Case()
    fields = {"isr": [1, 2, 3], **wrong}
    result, records = case.decide(*fields.pop("isr"), **fields)
    assert result.response[1].error_code == code
    assert records == []


def test_alter_partition_of_a_stale_broker_epoch_is_refused_as_a_whole() -> None:
    case = Case()
    request = case.request(1, 2, 3)
    request.broker_epoch += 1
    with pytest.raises(KafkaError) as refusal:
        case.cluster.controller.handle(request, 3)
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_alter_partition_refuses_replicas_that_are_not_active() -> None:
    case = Case()
    case.cluster.replay([FenceBrokerRecord(id=3)])
    assert case.alter(1, 2, 3).error_code == ErrorCode.INELIGIBLE_REPLICA
    stopping = Case()
    change = BrokerRegistrationChangeRecord(
        broker_id=3, broker_epoch=stopping.epoch(3), in_controlled_shutdown=1
    )
    stopping.cluster.replay([change])
    assert stopping.alter(1, 2, 3).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert stopping.alter(1, 2).error_code == 0


def test_alter_partition_refuses_another_incarnation_of_a_replica() -> None:
    """A proposal that is delayed past the restart of the follower (KIP-903)."""
    case = Case()
    delayed = case.request(1, 2, 3)
    case.cluster.register(registration(3, incarnation=33))
    case.cluster.unfence(3)
    answer = case.cluster.controller.handle(delayed, 3).response.topics[0].partitions[0]
    assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA
    for state in delayed.topics[0].partitions[0].new_isr_with_epochs:
        state.broker_epoch = -1
    assert case.cluster.take(case.cluster.controller.handle(delayed, 3)).topics[0].partitions[
        0
    ].isr == [1, 2, 3]


def test_alter_partition_while_recovering_accepts_only_the_leader() -> None:
    case = Case(isr=[1], leader_recovery_state=RECOVERING)
    grown = case.alter(1, 2, leader_recovery_state=RECOVERING)
    assert grown.error_code == ErrorCode.INVALID_REQUEST
    assert case.alter(1, leader_recovery_state=RECOVERING).error_code == 0
    assert case.alter(1, 2, leader_recovery_state=RECOVERED).error_code == 0
    assert (case.partition.isr, case.partition.leader_recovery_state) == ((1, 2), RECOVERED)


def test_alter_partition_that_names_a_partition_twice_changes_it_once() -> None:
    case = Case()
    request = case.request(1, 2, 3)
    request.topics.append(case.request(1).topics[0])
    response = case.cluster.take(case.cluster.controller.handle(request, 3))
    codes = [topic.partitions[0].error_code for topic in response.topics]
    assert codes == [0, ErrorCode.INVALID_UPDATE_VERSION]
    assert case.partition.isr == (1, 2, 3)


def test_alter_partition_completes_a_reassignment_and_reports_the_new_leader() -> None:
    case = Case(replicas=[2, 3, 4, 1], isr=[1, 2, 3], adding_replicas=[4], removing_replicas=[1])
    before = case.partition
    assert case.alter(1, 2, 3, 4).error_code == ErrorCode.NEW_LEADER_ELECTED
    after = case.partition
    assert (after.replicas, after.isr, after.leader) == ((2, 3, 4), (2, 3, 4), 2)
    assert (after.adding_replicas, after.removing_replicas) == ((), ())
    assert after.leader_epoch == before.leader_epoch + 1


def test_alter_partition_completes_a_reassignment_and_keeps_the_leader_in_a_new_epoch() -> None:
    case = Case(replicas=[1, 2, 4, 3], isr=[1, 2, 3], adding_replicas=[4], removing_replicas=[3])
    before = case.partition
    answer = case.alter(1, 2, 3, 4)
    assert (answer.error_code, answer.isr, answer.leader_id) == (0, [1, 2, 4], 1)
    assert answer.leader_epoch == case.partition.leader_epoch == before.leader_epoch + 1


def test_alter_partition_with_elr_keeps_a_removed_replica_eligible() -> None:
    case = Case()
    level = FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1)
    case.cluster.replay([level])
    case.alter(1)
    assert (case.partition.isr, case.partition.elr) == ((1,), (2,))
    case.alter(1, 3)
    assert (case.partition.isr, case.partition.elr) == ((1, 3), ())


def test_alter_partition_replica_in_an_offline_directory_is_accepted_but_not_elected() -> None:
    """As Kafka's `ineligibleReplicasForIsr`, which looks at brokers only.

    A leader does not propose such a replica (`test_partition_isr`).
    """
    case = Case(directories=[uuid(501), uuid(502), uuid(999)])  # broker 3 has not 999 online
    assert case.alter(1, 2, 3).error_code == 0
    assert set(case.partition.isr) == {1, 2, 3}
    for broker_id in (1, 2):
        case.cluster.take(case.cluster.controller.fence_broker(broker_id))
    assert case.partition.leader != 3
