"""The checker of history finds what is wrong with one, and nothing in a sound one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.testing.history import History, Kind, check


def sound() -> History:
    """Two transactions, one aborted, one of unknown outcome, read by two consumers."""
    history = History()
    for number in (0, 1):
        operation = history.begin("p")
        operation.sent("t", 0, f"v{number}", 2 * number)
        operation.sent("t", 1, f"w{number}", 2 * number)
        operation.ok()
    aborted = history.begin("p")
    aborted.sent("t", 0, "aborted", 4)
    aborted.fail()
    unknown = history.begin("p")
    unknown.sent("t", 0, "x", 6)
    unknown.sent("t", 1, "y", 4)
    for process in ("a", "b"):
        read = history.begin(process)
        read.repositioned = True
        for partition, values in ((0, "v"), (1, "w")):
            for number in (0, 1):
                read.read("t", partition, 2 * number, f"{values}{number}")
        read.ok()
    return history


def kinds(history: History, *, everything_was_read: bool = True) -> set[Kind]:
    return {each.kind for each in check(history, everything_was_read=everything_was_read)}


def test_correct_history_has_no_anomaly() -> None:
    assert kinds(sound()) == set()
    assert kinds(sound(), everything_was_read=False) == set()


def test_an_unknown_outcome_may_turn_out_either_way() -> None:
    history = sound()
    read = history.begin("c")
    read.read("t", 0, 6, "x")
    read.read("t", 1, 4, "y")
    assert kinds(history) == set()


def two_values_at_one_offset(history: History) -> None:
    history.begin("c").read("t", 0, 0, "other")


def an_ack_for_the_offset_of_another(history: History) -> None:
    operation = history.begin("q")
    operation.sent("t", 0, "again", 0)
    operation.ok()


def a_value_that_is_read_twice(history: History) -> None:
    history.begin("c").read("t", 0, 9, "v1")


def a_value_of_an_aborted_transaction(history: History) -> None:
    history.begin("c").read("t", 0, 4, "aborted")


def an_acked_value_that_readers_passed(history: History) -> None:
    operation = history.begin("q")
    operation.sent("t", 0, "gone", 1)
    operation.ok()


def an_acked_value_that_nobody_reached(history: History) -> None:
    operation = history.begin("q")
    operation.sent("t", 0, "far", 100)
    operation.ok()


def half_a_transaction(history: History) -> None:
    history.begin("c").read("t", 0, 6, "x")
    history.begin("d").read("t", 1, 8, "later")


def a_reader_that_goes_back(history: History) -> None:
    history.begin("a").read("t", 0, 0, "v0")


def an_ack_that_names_another_place(history: History) -> None:
    operation = history.begin("q")
    operation.sent("t", 0, "elsewhere", 100)
    operation.ok()
    history.begin("c").read("t", 0, 9, "elsewhere")


def a_value_that_nobody_wrote(history: History) -> None:
    history.begin("c").read("t", 0, 9, "from nowhere")


def a_reader_that_passes_over_a_value(history: History) -> None:
    read = history.begin("c")
    read.read("t", 0, 0, "v0")
    read.read("t", 0, 6, "x")
    read.read("t", 1, 4, "y")


def two_values_of_one_process_that_change_places(history: History) -> None:
    for value, offset in (("first", 11), ("second", 10)):
        operation = history.begin("q")
        operation.sent("t", 0, value, offset)
        operation.ok()


def an_unacked_value_that_lies_before_its_predecessor(history: History) -> None:
    first, second = history.begin("q"), history.begin("q")
    first.sent("t", 0, "first", 11)
    second.sent("t", 0, "second")
    history.begin("c").read("t", 0, 10, "second")


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (two_values_at_one_offset, Kind.INCONSISTENT_OFFSETS),
        (an_ack_for_the_offset_of_another, Kind.INCONSISTENT_OFFSETS),
        (a_value_that_is_read_twice, Kind.DUPLICATE),
        (a_value_of_an_aborted_transaction, Kind.ABORTED_READ),
        (an_acked_value_that_readers_passed, Kind.LOST),
        (an_acked_value_that_nobody_reached, Kind.UNSEEN),
        (half_a_transaction, Kind.TORN),
        (a_reader_that_goes_back, Kind.NONMONOTONIC_READ),
        (an_ack_that_names_another_place, Kind.DUPLICATE),
        (a_value_that_nobody_wrote, Kind.UNWRITTEN),
        (a_reader_that_passes_over_a_value, Kind.SKIPPED_READ),
        (two_values_of_one_process_that_change_places, Kind.NONMONOTONIC_SEND),
        (an_unacked_value_that_lies_before_its_predecessor, Kind.NONMONOTONIC_SEND),
    ],
    ids=lambda value: getattr(value, "__name__", None) or value.name,
)
def test_anomaly_is_found(plant: Callable[[History], None], kind: Kind) -> None:
    history = sound()
    plant(history)
    assert kind in kinds(history, everything_was_read=False)


def test_acked_value_that_is_never_read_is_lost() -> None:
    history = sound()
    an_acked_value_that_nobody_reached(history)
    assert kinds(history, everything_was_read=True) == {Kind.LOST}


def test_a_reader_that_was_repositioned_may_go_back() -> None:
    history = sound()
    operation = history.begin("a")
    operation.repositioned = True
    operation.read("t", 0, 0, "v0")
    assert kinds(history) == set()


def test_a_reader_that_was_repositioned_may_pass_over_values() -> None:
    history = sound()
    operation = history.begin("c")
    operation.read("t", 0, 0, "v0")
    operation = history.begin("c")
    operation.repositioned = True
    operation.read("t", 0, 6, "x")
    operation.read("t", 1, 4, "y")
    assert kinds(history) == set()


def test_a_history_can_be_kept(tmp_path: Path) -> None:
    history = sound()
    history.save(tmp_path / "history.jsonl")
    loaded = History.load(tmp_path / "history.jsonl")
    assert loaded.operations == history.operations


def test_an_ack_gives_a_write_its_offset() -> None:
    history = History()
    operation = history.begin("p")
    operation.sent("t", 0, "v")
    operation.acked("t", 0, "v", 7)
    operation.ok()
    history.begin("c").read("t", 0, 7, "w")
    assert {each.kind for each in check(history)} >= {Kind.INCONSISTENT_OFFSETS}
