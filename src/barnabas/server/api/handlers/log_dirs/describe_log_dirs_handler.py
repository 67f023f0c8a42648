"""DescribeLogDirs: the replicas in each directory, and the space on its disk (versions 1-5)."""

import os
from pathlib import Path

from barnabas.log import Volume
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.server.api.handler_services import LogDirContext, LogDirServices

DirResult = DescribeLogDirsResponse.DescribeLogDirsResult
TopicResult = DescribeLogDirsResponse.DescribeLogDirsTopic
PartitionResult = DescribeLogDirsResponse.DescribeLogDirsPartition

_DISK_SIZES_VERSION = 4


async def describe_log_dirs(
    context: LogDirContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Describe the requested partitions, or all, by directory. Sizes in bytes."""
    services = context.services
    results = _results(services, request)
    if context.version >= _DISK_SIZES_VERSION:
        for path, result in results.items():
            await services.disk.run(_measure, path, result)
    return DescribeLogDirsResponse(results=list(results.values()))


def _results(services: LogDirServices, request: DescribeLogDirsRequest) -> dict[Path, DirResult]:
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, number) for topic in request.topics for number in topic.partitions}
    volumes = services.logs.volumes
    results = {volume.path: _directory(volume) for volume in volumes}
    for volume in volumes:
        if volume.failure is not None:
            results[volume.path].error_code = ErrorCode.KAFKA_STORAGE_ERROR
    # A partition without a log is in its assigned directory, or where its log would be created.
    emptiest = services.logs.volume_of_new_logs()
    by_id = {volume.directory_id: volume for volume in volumes}
    topics: dict[tuple[Path, str], TopicResult] = {}
    for partition in services.replicas.partitions():
        name, number = partition.topic, partition.partition
        if wanted is not None and (name, number) not in wanted:
            continue
        log = services.logs.known(name, number)
        if log is not None:
            volume = log.volume
        else:
            image = partition.image
            volume = by_id.get(image.directory(services.node_id)) if image is not None else None
            volume = volume or emptiest
        if volume is None or volume.failure is not None:
            continue
        topic = topics.get((volume.path, name))
        if topic is None:
            topic = topics[volume.path, name] = TopicResult(name=name)
            results[volume.path].topics.append(topic)
        size = log.size_bytes if log is not None else 0
        topic.partitions.append(PartitionResult(partition_index=number, partition_size=size))
    _add_moves(services, wanted, results)
    return results


def _directory(volume: Volume) -> DirResult:
    return DirResult(log_dir=os.path.abspath(volume.path), is_cordoned=volume.is_cordoned)


def _add_moves(
    services: LogDirServices, wanted: set[tuple[str, int]] | None, results: dict[Path, DirResult]
) -> None:
    """Add the copies of logs that move to another directory: KIP-113's future replicas."""
    for log, move in services.logs.relocations.active.items():
        if wanted is None or (log.topic, log.partition) in wanted:
            partition = PartitionResult(
                partition_index=log.partition,
                partition_size=move.copied_bytes,
                offset_lag=log.log_end_offset - move.reached_offset,
                is_future_key=True,
            )
            topic = TopicResult(name=log.topic, partitions=[partition])
            results[move.target.path].topics.append(topic)


def _measure(path: Path, result: DirResult) -> None:
    if result.error_code:
        return
    try:
        disk = os.statvfs(path)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return
    result.total_bytes = disk.f_blocks * disk.f_frsize
    result.usable_bytes = disk.f_bavail * disk.f_frsize
