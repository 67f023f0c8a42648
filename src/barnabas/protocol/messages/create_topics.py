"""CreateTopics: create topics."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int8, int16, int32, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class CreateTopicsRequest(Message, api="CreateTopics"):
    """The topics to create, or only to validate."""

    class CreatableReplicaAssignment(Struct):
        partition_index: int = int32()
        broker_ids: list[int] = array(Kind.INT32)

    class CreatableTopicConfig(Struct):
        name: str = string()
        value: str | None = string(nullable=True)

    class CreatableTopic(Struct):
        name: str = string()
        num_partitions: int = int32()
        replication_factor: int = int16()
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = array(
            "CreatableReplicaAssignment"
        )
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = array("CreatableTopicConfig")

    topics: list[CreateTopicsRequest.CreatableTopic] = array("CreatableTopic")
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


class CreateTopicsResponse(Message, api="CreateTopics"):
    """The result of each topic: whether it was created, and its configuration."""

    class CreatableTopicConfigs(Struct):
        name: str = string()
        value: str | None = string(nullable=True)
        read_only: bool = boolean()
        config_source: int = int8(default=-1, ignorable=True)
        is_sensitive: bool = boolean()

    class CreatableTopicResult(Struct):
        name: str = string()
        topic_id: Uuid = uuid(versions="7+", ignorable=True)
        error_code: int = int16()
        error_message: str | None = string(nullable=True, ignorable=True)
        topic_config_error_code: int = int16(versions="5+", tag=0, ignorable=True)
        num_partitions: int = int32(versions="5+", default=-1, ignorable=True)
        replication_factor: int = int16(versions="5+", default=-1, ignorable=True)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = array(
            "CreatableTopicConfigs", versions="5+", nullable=True, ignorable=True
        )

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[CreateTopicsResponse.CreatableTopicResult] = array("CreatableTopicResult")
