"""Forget all that a job with state has stored, so that it processes everything again.

The markers, the positions and the state belong together, so they are removed together. When this
ends between two steps, the job refuses to start until the removal is repeated.
"""

from collections.abc import Callable, Mapping
from typing import Any

import trio

from barnabas.client import open_client
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.driver.group_offsets import GroupOffsets
from barnabas.pipeline.delivery.micro_batches import marker_records
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import CheckpointFiles
from barnabas.pipeline.delivery.micro_batches.micro_batch_job import markers_topic


def forget(job: str, group_id: str, properties: Mapping[str, Any], checkpoint: str | None) -> None:
    """Remove checkpoint, positions and markers of a stopped job, where it has any.

    `properties` are those of librdkafka.
    Raises KafkaException, GroupOffsetsError, TimeoutError, OSError.
    """
    if checkpoint is not None:
        CheckpointFiles(checkpoint).remove()
    trio.run(_remove_group, group_id, properties)
    cluster = ClusterState(properties)
    topic = markers_topic(job)
    found = cluster.topics([topic])[topic]
    # A topic of that name without markers is not the job's.
    if found is not None and marker_records.newest(properties, topic, range(found.partitions)):
        cluster.delete_topic(topic)


def forget_chained(
    job: str, properties: Mapping[str, Any], checkpoint_of: Callable[[str], str]
) -> None:
    """Remove the topics between the queries of a job, and what these queries have stored.

    Raises KafkaException, GroupOffsetsError, TimeoutError, OSError.
    """
    cluster = ClusterState(properties)
    for name in cluster.topics_between(job):
        cluster.delete_topic(name)
        forget(name, name, properties, checkpoint_of(name))


async def _remove_group(group_id: str, properties: Mapping[str, Any]) -> None:
    """Remove the group with its offsets, if it exists. Raises GroupOffsetsError."""
    given = {name: str(value) for name, value in properties.items()}
    async with open_client(given) as client:
        await GroupOffsets(client).reset(group_id)
