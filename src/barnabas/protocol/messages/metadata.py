"""Metadata: describe brokers, topics and partition leaders."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class MetadataRequest(Message, api="Metadata"):
    """The topics by name or id, or all; missing topics may be created."""

    class MetadataRequestTopic(Struct):
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        name: str | None = string(nullable="10+")

    topics: list[MetadataRequest.MetadataRequestTopic] | None = array(
        "MetadataRequestTopic", nullable="1+"
    )
    allow_auto_topic_creation: bool = boolean(versions="4+", default=True)
    include_cluster_authorized_operations: bool = boolean(versions="8-10")
    include_topic_authorized_operations: bool = boolean(versions="8+")


class MetadataResponse(Message, api="Metadata"):
    """The brokers, the controller, and each topic's partitions with leader and replicas."""

    class MetadataResponseBroker(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(versions="1+", nullable=True, default=None, ignorable=True)

    class MetadataResponsePartition(Struct):
        error_code: int = int16()
        partition_index: int = int32()
        leader_id: int = int32()
        leader_epoch: int = int32(versions="7+", default=-1, ignorable=True)
        replica_nodes: list[int] = array(Kind.INT32)
        isr_nodes: list[int] = array(Kind.INT32)
        offline_replicas: list[int] = array(Kind.INT32, versions="5+", ignorable=True)

    class MetadataResponseTopic(Struct):
        error_code: int = int16()
        name: str | None = string(nullable="12+")
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        is_internal: bool = boolean(versions="1+", ignorable=True)
        partitions: list[MetadataResponse.MetadataResponsePartition] = array(
            "MetadataResponsePartition"
        )
        topic_authorized_operations: int = int32(versions="8+", default=-2147483648)

    throttle_time_ms: int = int32(versions="3+", ignorable=True)
    brokers: list[MetadataResponse.MetadataResponseBroker] = array("MetadataResponseBroker")
    cluster_id: str | None = string(versions="2+", nullable=True, default=None, ignorable=True)
    controller_id: int = int32(versions="1+", default=-1, ignorable=True)
    topics: list[MetadataResponse.MetadataResponseTopic] = array("MetadataResponseTopic")
    cluster_authorized_operations: int = int32(versions="8-10", default=-2147483648)
    error_code: int = int16(versions="13+", ignorable=True)
