"""Forget all that a job with state has stored, so that it processes everything again.

The markers, the positions and the state belong together, so they are removed together. When this
ends between two steps, the job refuses to start until the removal is repeated.
"""

from collections.abc import Mapping
from typing import Any

from barnabas.pipeline.delivery import marker_records
from barnabas.pipeline.delivery.checkpoint_files import CheckpointFiles
from barnabas.pipeline.delivery.cluster_state import ClusterState
from barnabas.pipeline.delivery.epochs_job import epochs_topic


def forget(job: str, group_id: str, properties: Mapping[str, Any], checkpoint: str | None) -> None:
    """Remove checkpoint, positions and markers of a stopped job, where it has any.

    `properties` are those of librdkafka. Raises KafkaException, TimeoutError, OSError.
    """
    if checkpoint is not None:
        CheckpointFiles(checkpoint).remove()
    cluster = ClusterState(properties)
    cluster.delete_group(group_id)
    topic = epochs_topic(job)
    found = cluster.topics([topic])[topic]
    # A topic of that name without markers is not the job's.
    if found is not None and marker_records.newest(properties, topic, range(found.partitions)):
        cluster.delete_topic(topic)
