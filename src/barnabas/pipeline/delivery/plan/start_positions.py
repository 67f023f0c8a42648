"""The first offset of a forward job in each partition: a decision, without input or output.

The committed offsets of the group are the job's position. They are checked against what the topic
holds now, because records that were deleted, or a topic that was created again, must not be taken
for records that the job has read.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from barnabas.pipeline.delivery.plan.job_plan import JobFailure, OnTrim, RecordPosition

EARLIEST = -2
LATEST = -1
FirstOffsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition; -2 is the earliest."""
NO_OFFSETS: Final[FirstOffsets] = {}


@attrs.frozen
class Remedies:
    """The actions of a user when a position cannot be continued; `{topic}` is the topic's name."""

    positions: str = "reset the offsets of the job"
    trimmed: str = "set on.trim=skip"


DEFAULT_REMEDIES: Final = Remedies()


def _end_of(state: "PartitionState") -> int:
    return state.end


@attrs.frozen
class PartitionState:
    """One partition of a source topic, and what the group has committed for it."""

    topic: str
    partition: int
    start: int
    """The log start offset."""
    end: int
    """The high watermark."""
    committed: int | None
    committed_topic_id: str | None
    topic_id: str | None
    known_topic_id: str | None = None
    """The id that the topic had in an earlier run."""
    stable_end: int = attrs.field(default=attrs.Factory(_end_of, takes_self=True))
    """The last stable offset: the end of what read_committed shows."""


@attrs.frozen
class StartPositions:
    """The first offset of each partition, by topic and number."""

    offsets: Mapping[str, Mapping[int, int]]
    trimmed: int = 0
    """Offsets that retention deleted and the job skips."""


def decide(
    states: Iterable[PartitionState],
    offset_reset: str,
    on_trim: OnTrim,
    remedies: Remedies = DEFAULT_REMEDIES,
    first_offsets: FirstOffsets = NO_OFFSETS,
) -> StartPositions | JobFailure:
    """Return where to start, or why the job must not start.

    `first_offsets` are those of partitions without a committed one, by topic; a partition that its
    topic does not have there starts at the earliest, and a topic that is not there by
    `offset_reset`.
    """
    offsets: dict[str, dict[int, int]] = {}
    trimmed = 0
    for state in states:
        first = LATEST if offset_reset == "latest" else EARLIEST
        if state.topic in first_offsets:
            first = first_offsets[state.topic].get(state.partition, EARLIEST)
        found = _start(state, first, on_trim, remedies)
        if isinstance(found, JobFailure):
            return found
        offsets.setdefault(state.topic, {})[state.partition] = found
        if state.committed is not None and found > state.committed:
            trimmed += found - state.committed
    return StartPositions(offsets, trimmed)


def offsets_of(text: str) -> FirstOffsets:
    """Return the offsets of a text like `{"orders": {"0": 17}}`, as Spark's `startingOffsets`.

    Raises ValueError for another text.
    """
    try:
        found: dict[str, dict[str, int]] = json.loads(text)
        return {
            name: {int(number): int(offset) for number, offset in each.items()}
            for name, each in found.items()
        }
    except (AttributeError, TypeError) as error:
        raise ValueError(str(error)) from error


def resolved(
    offsets: Mapping[str, Mapping[int, int]], states: Iterable[PartitionState]
) -> dict[str, dict[int, int]]:
    """Return the offsets with the numbers of EARLIEST and LATEST."""
    found: dict[str, dict[int, int]] = {}
    for state in states:
        offset = offsets[state.topic][state.partition]
        number = {EARLIEST: state.start, LATEST: state.stable_end}.get(offset, offset)
        found.setdefault(state.topic, {})[state.partition] = number
    return found


def trimmed_text(
    position: RecordPosition, log_start: int, remedies: Remedies = DEFAULT_REMEDIES
) -> str:
    """Return why a job does not continue at a position before the log start offset."""
    return (
        f"retention deleted offsets {position.offset} to {log_start - 1} of "
        f"{position.topic}-{position.partition} before the job read them; {remedies.trimmed}, or "
        f"{remedies.positions.format(topic=position.topic)}"
    )


def _start(
    state: PartitionState, first: int, on_trim: OnTrim, remedies: Remedies
) -> int | JobFailure:
    where = f"{state.topic}-{state.partition}"
    remedy = remedies.positions.format(topic=state.topic)
    if state.committed is None:
        if state.known_topic_id not in (None, state.topic_id):
            return JobFailure(
                f"topic {state.topic} was recreated: its id was {state.known_topic_id}, is "
                f"{state.topic_id}, and there is no offset of {where}; {remedy}",
                is_permanent=True,
            )
        return first if first < 0 else _within(state, first, on_trim, remedies)
    ids = (state.committed_topic_id, state.topic_id)
    if None not in ids and ids[0] != ids[1]:
        return JobFailure(
            f"topic {state.topic} was recreated: offset {state.committed} of {where} was committed "
            f"in topic id {ids[0]}, the topic has id {ids[1]}; {remedy}",
            is_permanent=True,
        )
    return _within(state, state.committed, on_trim, remedies)


def _within(
    state: PartitionState, offset: int, on_trim: OnTrim, remedies: Remedies
) -> int | JobFailure:
    """Return an offset that the partition has, or why the job does not continue there."""
    record = RecordPosition(state.topic, state.partition, offset)
    if offset > state.end:
        remedy = remedies.positions.format(topic=state.topic)
        return JobFailure(
            f"offset {offset} of {state.topic}-{state.partition} is beyond the end of the "
            f"partition ({state.end}): the topic was recreated or truncated; {remedy}",
            is_permanent=True,
            record=record,
        )
    if offset < state.start and on_trim is OnTrim.FAIL:
        return JobFailure(
            trimmed_text(record, state.start, remedies), is_permanent=True, record=record
        )
    return max(offset, state.start)
