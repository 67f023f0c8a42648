"""`checkpoints`: files equal those of Kafka, and damaged ones raise a clear error."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.log.checkpoints import (
    CheckpointError,
    MetaProperties,
    decode_clean_shutdown,
    decode_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_clean_shutdown,
    encode_epochs,
    encode_offsets,
    encode_partition_metadata,
)
from barnabas.log.segment.leader_epochs import EpochEntry, LeaderEpochs
from barnabas.protocol.types import Uuid

ID = Uuid(bytes(range(16)))
NAMES = st.text("abz.-_09", min_size=1, max_size=8)


@given(st.dictionaries(st.tuples(NAMES, st.integers(0, 99)), st.integers(0, 2**63 - 1)))
def test_offset_checkpoints_are_decoded_as_encoded(offsets) -> None:
    assert decode_offsets(encode_offsets(offsets)) == offsets


def test_checkpoints_have_the_text_of_kafka() -> None:
    assert encode_offsets({("t", 0): 5, ("u-1", 3): 0}) == b"0\n2\nt 0 5\nu-1 3 0\n"
    assert encode_epochs([EpochEntry(0, 0), EpochEntry(3, 17)]) == b"0\n2\n0 0\n3 17\n"
    assert encode_partition_metadata(ID) == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert encode_clean_shutdown(12) == b'{"version":0,"brokerEpoch":12}'
    assert decode_clean_shutdown(b"") == -1, "as Apache Kafka before 3.8"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"1\n0\n", "does not begin with version 0"),
        (b"0\n", "does not begin with version 0"),
        (b"0\nx\n", "does not begin with version 0"),
        (b"0\n2\nt 0 5\n", "it has 1 entries, but its count is 2"),
        (b"0\n1\nt 0\n", "an entry does not have 3 fields"),
        (b"0\n1\nt zero 5\n", "not numbers: zero 5"),
        (b"\xff\xfe", "it is not text"),
    ],
)
def test_damaged_offset_checkpoint_raises_its_fault(content, reason) -> None:
    with pytest.raises(CheckpointError, match=reason):
        decode_offsets(content)


def test_epochs_that_do_not_ascend_raise_an_error() -> None:
    with pytest.raises(CheckpointError, match="epoch 2 at 0 does not follow the entry before it"):
        decode_epochs(b"0\n2\n1 5\n2 0\n")


def test_meta_properties_are_decoded_as_encoded_with_their_version() -> None:
    written = MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", 3, ID)
    assert MetaProperties.decode(written.encode()) == written
    for content, reason in (
        (b"", "version None is not 1"),
        (b"version=0\nbroker.id=3\n", "version 0 is not 1"),
        (b"version=1\nnode.id=3\n", "cluster.id is missing"),
        (b"version=1\ncluster.id=x\nnode.id=three\n", "three"),
    ):
        with pytest.raises(CheckpointError, match=reason):
            MetaProperties.decode(content)


@pytest.mark.parametrize("content", [b"version: 1\ntopic_id: x", b"version: 0", b"\xff"])
def test_partition_metadata_without_a_topic_id_raises_an_error(content) -> None:
    with pytest.raises(CheckpointError):
        decode_partition_metadata(content)


# Leader epochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([EpochEntry(*entry) for entry in entries])


def test_epoch_without_records_is_replaced_by_the_next() -> None:
    known = epochs((0, 0), (1, 10))
    known.assign(2, 10)
    assert known.entries == [(0, 0), (2, 10)]


def test_end_of_an_epoch_is_the_start_of_the_next() -> None:
    known = epochs((1, 5), (3, 20), (4, 30))
    assert known.end_offset_for(4, 44) == (4, 44)
    assert known.end_offset_for(3, 44) == (3, 30)
    assert known.end_offset_for(2, 44) == (1, 20)
    assert known.end_offset_for(0, 44) == (0, 5)
    assert known.end_offset_for(5, 44) == (-1, -1)
    assert LeaderEpochs().end_offset_for(0, 44) == (-1, -1)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=8),
    st.integers(0, 80),
    st.integers(0, 80),
)
def test_epochs_after_truncation_are_those_of_the_remaining_offsets(steps, start, end) -> None:
    known, of_offset, epoch = LeaderEpochs(), [], 0
    for more, count in steps:
        epoch += more
        known.assign(epoch, len(of_offset))
        of_offset += [epoch] * count
    known.truncate_end(end)
    assert all(entry.start_offset < end for entry in known.entries)
    known.truncate_start(start)
    for offset in range(start, min(end, len(of_offset))):
        assert known.at(offset) == of_offset[offset]
    assert all(a.epoch < b.epoch and a[1] < b[1] for a, b in pairwise(known.entries))
