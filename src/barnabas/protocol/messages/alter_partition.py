"""AlterPartition: a partition's leader changes the ISR through the controller."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int8, int16, int32, int64, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class AlterPartitionRequest(Message, api="AlterPartition"):
    """The proposed ISR of each partition, against a partition epoch."""

    class BrokerState(Struct):
        broker_id: int = int32()
        broker_epoch: int = int64(default=-1)

    class PartitionData(Struct):
        partition_index: int = int32()
        leader_epoch: int = int32()
        new_isr: list[int] = array(Kind.INT32, versions="2")
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = array(
            "BrokerState", versions="3+"
        )
        leader_recovery_state: int = int8()
        partition_epoch: int = int32()

    class TopicData(Struct):
        topic_id: Uuid = uuid(ignorable=True)
        partitions: list[AlterPartitionRequest.PartitionData] = array("PartitionData")

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionRequest.TopicData] = array("TopicData")


class AlterPartitionResponse(Message, api="AlterPartition"):
    """The controller's state of each partition."""

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        leader_id: int = int32()
        leader_epoch: int = int32()
        isr: list[int] = array(Kind.INT32)
        leader_recovery_state: int = int8(ignorable=True)
        partition_epoch: int = int32()

    class TopicData(Struct):
        topic_id: Uuid = uuid(ignorable=True)
        partitions: list[AlterPartitionResponse.PartitionData] = array("PartitionData")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlterPartitionResponse.TopicData] = array("TopicData")
