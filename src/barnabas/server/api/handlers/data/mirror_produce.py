"""Produce to a mirror: the flow's batches, and the refusal of all others."""

from typing import TYPE_CHECKING

from barnabas.cluster.replication.mirror_state import MirrorState
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.api.flows import is_flow
from barnabas.server.api.handler_services import DataContext

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition
    from barnabas.log import AppendInfo


def append_mirrored(
    context: DataContext,
    partition: "Partition",
    mirror: MirrorState,
    records: memoryview,
    acks: int,
    now_ms: int,
) -> "AppendInfo | None":
    """Append the batches of the flow; return None for an ordinary batch to a promoted topic.

    Raises KafkaError POLICY_VIOLATION when the sender may not write, KAFKA_STORAGE_ERROR when the
    mirror could not be ended yet, and the errors of `Partition.append_mirrored`.
    """
    comes_from_flow = is_flow(context, mirror.flow)
    if not mirror.is_active:
        if comes_from_flow:
            raise _refusal(
                f"Topic {partition.topic} was promoted and is not a mirror of flow {mirror.flow} "
                "any longer: ordinary producers write to it, and the flow must stop"
            )
        if not mirror.is_settled:
            partition.check_leader()
            partition.settle_promotion()
            if not mirror.is_settled:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"the mirror {partition.topic}-{partition.partition} could not be ended",
                )
        return None
    if not comes_from_flow:
        raise _refusal(
            f"Topic {partition.topic} is a mirror, and only its flow {mirror.flow} writes to it. "
            f"To open it to producers, run: barnabas mirror promote {mirror.flow} --to <this "
            f"cluster> --topic {partition.topic}"
        )
    if acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}")
    return partition.append_mirrored(records, required_acks=acks, now_ms=now_ms)


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.POLICY_VIOLATION, message)
