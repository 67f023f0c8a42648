"""The checkpoints that are written for groups."""

import pytest

from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry
from barnabas.pipeline.mirror.flow_connector import TopicFilter
from barnabas.pipeline.mirror.mirrormaker.checkpoint_book import CheckpointBook
from barnabas.pipeline.mirror.mirrormaker.internal_records import Checkpoint
from barnabas.pipeline.mirror.mirrormaker.replication_policies import ReplicationPolicy
from barnabas.protocol.batches.record_decoding import Record

WHERE = ("t", 0)
FILTER = TopicFilter((".*",), ("__.*", "x"), ReplicationPolicy("A"), "B")


class Shifted:
    """Translates offsets to those `shift` lower; none above `end`."""

    def __init__(self, shift: int, end: int = 1000) -> None:
        self.shift = shift
        self.end = end

    def translate(self, where: tuple[str, int], offset: int) -> int | None:
        del where
        return max(-1, offset - self.shift) if offset <= self.end else None


def updated(book: CheckpointBook, offset: int, shift: int = 10) -> list[tuple[int, int]]:
    found = book.update("g", {WHERE: GroupEntry(offset, "m")}, Shifted(shift))
    return [(each.upstream, each.downstream) for each in found]


def test_a_checkpoint_has_the_remote_name_and_both_offsets() -> None:
    book = CheckpointBook(FILTER)
    [found] = book.update("g", {WHERE: GroupEntry(30, "m")}, Shifted(10))
    assert found == Checkpoint("g", "A.t", 0, 30, 20, "m")
    assert book.offsets() == {"g": {("A.t", 0): GroupEntry(20, "m")}}


def test_repeated_checkpoints_are_not_written_and_the_target_does_not_go_back() -> None:
    book = CheckpointBook(FILTER)
    assert updated(book, 30) == [(30, 20)]
    assert updated(book, 30) == []
    assert updated(book, 31, shift=20) == []
    assert updated(book, 35) == [(35, 25)]
    assert updated(book, 12) == [(12, 2)]  # the group was reset at the source


def test_offsets_without_syncs_and_topics_that_are_left_out_have_no_checkpoints() -> None:
    book = CheckpointBook(FILTER)
    entries = {
        WHERE: GroupEntry(5),
        ("u", 0): GroupEntry(2000),
        ("x", 0): GroupEntry(30),
        ("B.t", 0): GroupEntry(30),
    }
    assert book.update("g", entries, Shifted(10)) == []


def test_a_restarted_connector_knows_its_checkpoints() -> None:
    last = Checkpoint("g", "A.t", 0, 30, 20, "m")
    book = CheckpointBook(FILTER)
    book.load([Record(0, 0, last.key(), last.value()), Record(1, 0, b"?", b"?")])
    assert updated(book, 30) == []
    assert updated(book, 31) == [(31, 21)]


@pytest.mark.parametrize(
    ("topic", "is_copied"),
    [
        ("t", True),
        ("x", False),
        ("B.t", False),
        ("C.B.t", False),
        ("C.t", True),
        ("__consumer_offsets", False),
        ("mm2-offset-syncs.B.internal", False),
        ("A.checkpoints.internal", False),
        ("heartbeats", True),
        ("C.heartbeats", True),
        ("B.heartbeats", False),
    ],
)
def test_internal_topics_and_cycles_are_left_out(topic: str, *, is_copied: bool) -> None:
    assert FILTER.accepts(topic) is is_copied


def test_heartbeats_are_copied_without_being_named() -> None:
    chosen = TopicFilter(("t",), (), ReplicationPolicy("A"), "B")
    assert [name for name in ("heartbeats", "t", "u") if chosen.accepts(name)] == [
        "heartbeats",
        "t",
    ]
    without = TopicFilter(("t",), (), ReplicationPolicy("A"), "B", has_heartbeats=False)
    assert not without.accepts("heartbeats")
