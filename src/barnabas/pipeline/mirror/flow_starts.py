"""The first offset of a flow in each partition, or a refusal: a decision, without input or output.

A position at the target is the group's committed offset, or the end of a mirror topic's log. The
group's metadata also says which topic of which cluster the positions are of.
"""

import attrs

from barnabas.pipeline.delivery.plan.job_plan import OnTrim, RecordPosition
from barnabas.pipeline.delivery.plan.offset_metadata import OffsetMetadata
from barnabas.pipeline.delivery.plan.start_positions import Remedies, trimmed_text
from barnabas.pipeline.mirror.flow_values import NO_EPOCH
from barnabas.pipeline.mirror.topic_following import FlowRefusedError

REMEDIES = Remedies(
    "delete topic {topic} at the target, to copy it from its start", "set on.trim=skip"
)


@attrs.frozen
class PartitionView:
    """One partition at both clusters."""

    topic: str
    partition: int
    topic_id: str
    """The id of the source's topic."""
    cluster_id: str
    """The id of the source's cluster."""
    source_start: int
    source_end: int
    """The high watermark of the source."""
    target_start: int
    target_end: int
    committed: int | None
    metadata: OffsetMetadata
    leader_epoch: int = NO_EPOCH
    """The source's leader epoch of the last batch that was copied, as committed."""

    @property
    def name(self) -> str:
        """Return the name of the partition."""
        return f"{self.topic}-{self.partition}"


@attrs.frozen
class FlowStart:
    """The first offset to copy."""

    position: int
    trimmed: int = 0
    """Offsets that retention deleted and the flow skips."""
    leader_epoch: int = NO_EPOCH
    """The source's leader epoch of the batch before the position."""


def start_of(view: PartitionView, on_trim: OnTrim, *, is_identical: bool) -> FlowStart:
    """Return where to begin. Raises FlowRefusedError."""
    _check_origin(view)
    position = (view.target_end or None) if is_identical else view.committed
    if view.committed is None and view.target_end > view.target_start and not is_identical:
        raise FlowRefusedError(
            f"{view.name} has records at the target, and the flow has no position in it: delete "
            f"topic {view.topic} at the target and let the flow create it"
        )
    if position is None:
        return FlowStart(view.source_start)
    if position > view.source_end:
        record = RecordPosition(view.topic, view.partition, position)
        raise FlowRefusedError(truncated_text(record, view.source_end))
    if position >= view.source_start:
        return FlowStart(position, leader_epoch=view.leader_epoch)
    if on_trim is OnTrim.FAIL:
        record = RecordPosition(view.topic, view.partition, position)
        raise FlowRefusedError(trimmed_text(record, view.source_start, REMEDIES))
    return FlowStart(view.source_start, view.source_start - position)


def _check_origin(view: PartitionView) -> None:
    """Raise FlowRefusedError when the positions are of another topic or cluster."""
    if view.committed is None:
        return
    cluster_id = view.metadata.note
    if cluster_id and cluster_id != view.cluster_id:
        raise FlowRefusedError(
            f"the positions of the flow are of cluster {cluster_id}, and cluster "
            f"{view.cluster_id} answers at the address of the source: correct "
            "source.bootstrap.servers, or create a flow with another name"
        )
    topic_id = view.metadata.topic_id
    if topic_id and topic_id != view.topic_id:
        raise FlowRefusedError(recreated_text(view.topic, topic_id, view.topic_id))


def recreated_text(topic: str, known_id: str, topic_id: str) -> str:
    """Return why a flow does not continue in a topic with another id."""
    return (
        f"topic {topic} was recreated at the source: its id was {known_id}, is {topic_id}; delete "
        "it at the target, to copy it from its start, or leave it out of the flow"
    )


def diverged_text(position: RecordPosition, offset: int) -> str:
    """Return why a flow does not continue in a log that differs from the one it has copied."""
    where = f"{position.topic}-{position.partition}"
    first = min(offset, position.offset)
    return (
        f"the source's log of {where} differs from offset {first} on from what the flow has copied "
        f"up to offset {position.offset}: an unclean election at the source took records back; "
        f"delete topic {position.topic} at the target, to copy it from its start, or leave it out "
        "of the flow"
    )


def truncated_text(position: RecordPosition, end: int) -> str:
    """Return why a flow does not continue behind the end of its source."""
    where = f"{position.topic}-{position.partition}"
    return (
        f"the source's log of {where} ends at offset {end}, and the flow has copied the offsets "
        f"before {position.offset}: the source has lost offsets {end} to {position.offset - 1}, "
        f"in an unclean election or with a recreated topic; delete topic {position.topic} at the "
        "target, to copy it from its start, or leave it out of the flow"
    )
