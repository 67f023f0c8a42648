"""DescribeLogDirs: describe a broker's log directories and their partitions."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class DescribeLogDirsRequest(Message, api="DescribeLogDirs"):
    """The partitions; null for all."""

    class DescribableLogDirTopic(Struct):
        topic: str = string()
        partitions: list[int] = array(Kind.INT32)

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = array(
        "DescribableLogDirTopic", nullable=True
    )


class DescribeLogDirsResponse(Message, api="DescribeLogDirs"):
    """Each directory's size and state, and its partitions."""

    class DescribeLogDirsPartition(Struct):
        partition_index: int = int32()
        partition_size: int = int64()
        offset_lag: int = int64()
        is_future_key: bool = boolean()

    class DescribeLogDirsTopic(Struct):
        name: str = string()
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = array(
            "DescribeLogDirsPartition"
        )

    class DescribeLogDirsResult(Struct):
        error_code: int = int16()
        log_dir: str = string()
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = array("DescribeLogDirsTopic")
        total_bytes: int = int64(versions="4+", default=-1, ignorable=True)
        usable_bytes: int = int64(versions="4+", default=-1, ignorable=True)
        is_cordoned: bool = boolean(versions="5+", ignorable=True)

    throttle_time_ms: int = int32()
    error_code: int = int16(versions="3+", ignorable=True)
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = array("DescribeLogDirsResult")
