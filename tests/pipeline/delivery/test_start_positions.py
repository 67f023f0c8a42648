"""First offsets of forward jobs."""

import attrs
import pytest

from barnabas.pipeline.delivery.plan.job_plan import JobFailure, OnTrim, RecordPosition
from barnabas.pipeline.delivery.plan.start_positions import (
    EARLIEST,
    LATEST,
    PartitionState,
    Remedies,
    StartPositions,
    decide,
    resolved,
)

STATE = PartitionState(
    "t", 3, start=10, end=50, committed=20, committed_topic_id="id", topic_id="id"
)


def decided(state: PartitionState, on_trim: OnTrim = OnTrim.FAIL) -> StartPositions | JobFailure:
    return decide([state], "earliest", on_trim)


def test_committed_offset_is_the_start() -> None:
    assert decided(STATE) == StartPositions({"t": {3: 20}})


@pytest.mark.parametrize("committed", [10, 50])
def test_committed_offset_at_either_end_is_the_start(committed: int) -> None:
    state = attrs.evolve(STATE, committed=committed)
    assert decided(state) == StartPositions({"t": {3: committed}})


@pytest.mark.parametrize(("reset", "start"), [("earliest", EARLIEST), ("latest", LATEST)])
def test_partition_without_committed_offset_starts_where_the_reset_says(
    reset: str, start: int
) -> None:
    state = attrs.evolve(STATE, committed=None, committed_topic_id=None)
    assert decide([state], reset, OnTrim.FAIL) == StartPositions({"t": {3: start}})


def test_trimmed_offset_fails_and_names_the_range() -> None:
    failure = decided(attrs.evolve(STATE, committed=7))
    assert isinstance(failure, JobFailure)
    assert failure.is_permanent
    assert "offsets 7 to 9 of t-3" in failure.message
    assert failure.record == RecordPosition("t", 3, 7)


def test_trimmed_offset_is_skipped_and_counted_by_choice() -> None:
    found = decided(attrs.evolve(STATE, committed=7), OnTrim.SKIP)
    assert found == StartPositions({"t": {3: 10}}, trimmed=3)


def test_offset_behind_the_end_fails() -> None:
    failure = decided(attrs.evolve(STATE, committed=51))
    assert isinstance(failure, JobFailure)
    assert failure.is_permanent


def test_offset_of_another_topic_id_fails_even_inside_the_log() -> None:
    failure = decided(attrs.evolve(STATE, committed_topic_id="old"), OnTrim.SKIP)
    assert isinstance(failure, JobFailure)
    assert "was recreated" in failure.message


def test_offset_without_a_topic_id_is_accepted() -> None:
    assert decided(attrs.evolve(STATE, committed_topic_id=None)) == StartPositions({"t": {3: 20}})


def test_resolved_positions_have_numbers_in_place_of_earliest_and_latest() -> None:
    states = [PartitionState("t", number, 5, 9, None, None, None) for number in range(3)]
    found = resolved({"t": {0: EARLIEST, 1: LATEST, 2: 7}}, states)
    assert found == {"t": {0: 5, 1: 9, 2: 7}}


LOST = attrs.evolve(STATE, committed=None, committed_topic_id=None, known_topic_id="old")


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_partition_of_a_recreated_topic_does_not_start_at_its_beginning(reset: str) -> None:
    """A topic that is deleted takes the committed offsets with it."""
    failure = decide([LOST], reset, OnTrim.SKIP, Remedies("set the offsets of {topic}"))
    assert isinstance(failure, JobFailure)
    assert failure.is_permanent
    assert failure.message == (
        "topic t was recreated: its id was old, is id, and there is no offset of t-3; set the "
        "offsets of t"
    )


def test_offset_that_a_tool_has_set_in_a_recreated_topic_is_accepted() -> None:
    state = attrs.evolve(STATE, committed_topic_id=None, known_topic_id="old")
    assert decided(state) == StartPositions({"t": {3: 20}})


def test_partition_without_offset_in_a_known_topic_starts_where_the_reset_says() -> None:
    found = decided(attrs.evolve(LOST, known_topic_id="id"))
    assert found == StartPositions({"t": {3: EARLIEST}})


@pytest.mark.parametrize("committed", [None, 20])
def test_partition_without_committed_offset_starts_at_its_first_offset(
    committed: int | None,
) -> None:
    state = attrs.evolve(STATE, committed=committed)
    added = attrs.evolve(STATE, partition=4, committed=None)
    other = attrs.evolve(added, topic="u")
    found = decide([state, added, other], "latest", OnTrim.FAIL, first_offsets={"t": {3: 30}})
    expected = {"t": {3: committed or 30, 4: EARLIEST}, "u": {4: LATEST}}
    assert found == StartPositions(expected)


@pytest.mark.parametrize(("first", "text"), [(7, "offsets 7 to 9 of t-3"), (51, "beyond the end")])
def test_first_offset_that_the_partition_does_not_have_fails(first: int, text: str) -> None:
    state = attrs.evolve(STATE, committed=None)
    found = decide([state], "latest", OnTrim.FAIL, first_offsets={"t": {3: first}})
    assert isinstance(found, JobFailure)
    assert text in found.message


def test_remedies_are_those_of_the_caller() -> None:
    remedies = Remedies("reset {topic}", "skip them")
    failure = decide([attrs.evolve(STATE, committed=7)], "earliest", OnTrim.FAIL, remedies)
    assert isinstance(failure, JobFailure)
    assert failure.message.endswith("; skip them, or reset t")
