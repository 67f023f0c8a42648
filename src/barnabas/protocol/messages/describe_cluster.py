"""DescribeCluster: list the nodes of a cluster."""

from __future__ import annotations

from barnabas.protocol.fields import array, boolean, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class DescribeClusterRequest(Message, api="DescribeCluster"):
    """The kind of nodes to describe: brokers or controllers."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(versions="1+", default=1)
    include_fenced_brokers: bool = boolean(versions="2+")


class DescribeClusterResponse(Message, api="DescribeCluster"):
    """The cluster id, the controller, and the nodes with their endpoints."""

    class DescribeClusterBroker(Struct):
        broker_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(nullable=True, default=None)
        is_fenced: bool = boolean(versions="2+")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    endpoint_type: int = int8(versions="1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterResponse.DescribeClusterBroker] = array("DescribeClusterBroker")
    cluster_authorized_operations: int = int32(default=-2147483648)
