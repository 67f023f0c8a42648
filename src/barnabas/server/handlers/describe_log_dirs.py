"""DescribeLogDirs: what lies in which directory, and how full its disk is (versions 1-5)."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.server.context import RequestContext
from barnabas.server.dispatch import handles

if TYPE_CHECKING:
    from barnabas.server.node import Node

DirResult = DescribeLogDirsResponse.DescribeLogDirsResult
TopicResult = DescribeLogDirsResponse.DescribeLogDirsTopic
PartitionResult = DescribeLogDirsResponse.DescribeLogDirsPartition

_DISK_SIZES_VERSION = 4


@handles(DescribeLogDirsRequest)
async def describe_log_dirs(
    context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Describe the asked partitions, or all, by directory. Sizes in bytes."""
    node = context.node
    results = _results(node, request)
    if context.version >= _DISK_SIZES_VERSION:
        for path, result in results.items():
            await node.disk.run(_measure, path, result)
    return DescribeLogDirsResponse(results=list(results.values()))


def _results(node: "Node", request: DescribeLogDirsRequest) -> dict[Path, DirResult]:
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, number) for topic in request.topics for number in topic.partitions}
    results = {path: DirResult(log_dir=str(path)) for path in _directories(node.config.log_dirs)}
    topics: dict[tuple[Path, str], TopicResult] = {}
    for log in node.logs.logs():
        if wanted is not None and (log.topic, log.partition) not in wanted:
            continue
        path = Path(os.path.abspath(log.directory)).parent
        key = (path, log.topic)
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = TopicResult(name=log.topic)
            results[path].topics.append(topic)
        topic.partitions.append(
            PartitionResult(partition_index=log.partition, partition_size=log.size_bytes)
        )
    return results


def _directories(paths: Iterable[Path]) -> list[Path]:
    return [Path(os.path.abspath(path)) for path in paths]


def _measure(path: Path, result: DirResult) -> None:
    try:
        disk = os.statvfs(path)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return
    result.total_bytes = disk.f_blocks * disk.f_frsize
    result.usable_bytes = disk.f_bavail * disk.f_frsize
