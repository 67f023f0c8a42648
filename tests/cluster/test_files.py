"""The quorum's files: quorum-state, snapshots, and a newly formatted directory."""

from pathlib import Path

import pytest

from barnabas.cluster.metadata.feature_levels import BOOTSTRAP
from barnabas.cluster.metadata.image import Endpoint, MetadataImage
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.metadata_loader import MetadataLoader
from barnabas.cluster.quorum.metadata_snapshot import (
    Snapshot,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    metadata_batch,
)
from barnabas.cluster.quorum.quorum_state import QuorumState, QuorumStateError
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.records.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from barnabas.protocol.types import Uuid
from barnabas.server.quorum.quorum_files import format_directory, read_quorum_state
from tests.cluster.states import uuid

# Written by `kafka-storage format --standalone` of Apache Kafka 4.3.0.
KAFKAS_CHECKPOINT = bytes.fromhex(
    "00000000000000000000009a000000000273689b83002000000002000001a1fd415e8a000001a1fd415e8aff"
    "ffffffffffffffffffffffffff000000032a0000000800000003160000000001a1fd415e7000001e00000208"
    "000000050a000000010000820100000408000000066e00000200000001e010e9f66160428ca72b67a72579d8"
    "54020b434f4e54524f4c4c45520a3132372e302e302e3198b500000000010000000000000000000000030000"
    "003f00000000022f368d5f002000000000000001a1fd415e92000001a1fd415e92ffffffffffffffffffffff"
    "ffffff000000011a00000008000000040600000000"
)
STATE = QuorumState(epoch=7, leader_id=None, voted=ReplicaKey(3, uuid(5)))


def test_quorum_state_encodes_as_kafka_does() -> None:
    assert QuorumState(epoch=1, leader_id=1).encode(1, (1,)) == (
        b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,'
        b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )


def test_quorum_state_with_static_voters_encodes_as_kafka_does() -> None:
    assert STATE.encode(0, (3, 1)) == (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":7,"votedId":3,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":3}],"data_version":0}'
    )


def test_quorum_state_decodes_what_it_encodes() -> None:
    assert QuorumState.decode(STATE.encode(1, ())) == STATE


def test_quorum_state_with_static_voters_decodes_without_the_voted_directory() -> None:
    assert QuorumState.decode(STATE.encode(0, (1, 3))) == QuorumState(7, None, ReplicaKey(3))


@pytest.mark.parametrize(
    ("voted", "candidate", "expected"),
    [
        (None, ReplicaKey(3, uuid(5)), True),
        (ReplicaKey(3, uuid(5)), ReplicaKey(3, uuid(5)), True),
        (ReplicaKey(3, uuid(5)), ReplicaKey(3, uuid(6)), False),
        (ReplicaKey(3, uuid(5)), ReplicaKey(3), False),
        (ReplicaKey(3), ReplicaKey(3, uuid(5)), True),
        (ReplicaKey(3), ReplicaKey(2, uuid(5)), False),
    ],
)
def test_quorum_state_vote_is_for_one_candidate(
    voted: ReplicaKey | None, candidate: ReplicaKey, expected: bool
) -> None:
    assert QuorumState(7, None, voted).may_vote_for(candidate) is expected


def test_quorum_state_decodes_version_0() -> None:
    content = (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert QuorumState.decode(content) == QuorumState(epoch=4, leader_id=1)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"leaderId":1,"leaderEpoch":-5,"data_version":1}']
)
def test_quorum_state_damaged_file_is_refused(content: bytes) -> None:
    with pytest.raises(QuorumStateError):
        QuorumState.decode(content)


def test_quorum_state_without_a_file_starts_at_epoch_zero(tmp_path: Path) -> None:
    assert read_quorum_state(tmp_path) == QuorumState()


def test_snapshot_decodes_a_checkpoint_of_kafka() -> None:
    snapshot = decode_snapshot(KAFKAS_CHECKPOINT)
    (voter,) = snapshot.voters or ()
    assert voter.key == ReplicaKey(1, Uuid.parse("4BDp9mFgQoynK2enJXnYVA"))
    assert voter.endpoints == (Endpoint("CONTROLLER", "127.0.0.1", 39093),)
    assert snapshot.kraft_version == 1


def test_format_writes_the_files_of_kafka_except_times(tmp_path: Path) -> None:
    format_directory(
        tmp_path,
        voters=VoterSet.of(
            Voter(
                ReplicaKey(1, Uuid.parse("4BDp9mFgQoynK2enJXnYVA")),
                (Endpoint("CONTROLLER", "127.0.0.1", 39093),),
            )
        ),
        now_ms=1795250282122,
    )
    written = (tmp_path / "__cluster_metadata-0" / SnapshotId(0, 0).file_name).read_bytes()
    assert len(written) == len(KAFKAS_CHECKPOINT)
    assert decode_snapshot(written).voters == decode_snapshot(KAFKAS_CHECKPOINT).voters
    bootstrap = decode_snapshot((tmp_path / "bootstrap.checkpoint").read_bytes())
    first, *others = BOOTSTRAP.items()
    assert bootstrap.records == [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in (first, *sorted(others))
    ]
    assert bootstrap.voters is None


def test_snapshot_id_parses_its_file_name() -> None:
    name = "00000000000000000123-0000000007.checkpoint"
    assert SnapshotId.parse(name) == SnapshotId(123, 7)
    assert SnapshotId(123, 7).file_name == name
    assert SnapshotId.parse(name + ".part") is None


def test_snapshot_with_many_batches_decodes_completely() -> None:
    records = [FeatureLevelRecord(name=f"f{n}", feature_level=n + 1) for n in range(3000)]
    voters = VoterSet.of(Voter(ReplicaKey(1, uuid(1))), Voter(ReplicaKey(2, uuid(2))))
    snapshot = Snapshot(list(records), 1, voters, 99)
    content = b"".join(encode_snapshot(snapshot, 5, epoch=3))
    assert decode_snapshot(content) == snapshot


def test_snapshot_without_a_footer_is_refused() -> None:
    parts = list(encode_snapshot(Snapshot([NoOpRecord()]), 5))
    with pytest.raises(ProtocolError):
        decode_snapshot(b"".join(parts[:-1]))


def test_snapshot_with_a_flipped_bit_is_refused_or_unchanged() -> None:
    records = [FeatureLevelRecord(name=f"f{n}", feature_level=n + 1) for n in range(3)]
    voters = VoterSet.of(Voter(ReplicaKey(1, uuid(1))))
    snapshot = Snapshot(list(records), 1, voters, 99)
    content = b"".join(encode_snapshot(snapshot, 5, epoch=3))
    refused = 0
    for bit in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert decode_snapshot(bytes(damaged)) == snapshot, f"bit {bit}"
        except ProtocolError:
            refused += 1
    assert refused > 0.8 * len(content) * 8, "only offsets and epochs are outside of the crc"


def test_loader_applies_a_transaction_completely_or_not_at_all() -> None:
    loader = MetadataLoader(MetadataImage())
    level = FeatureLevelRecord
    loader.load_batches(metadata_batch([
        BeginTransactionRecord(), level(name="a", feature_level=1), AbortTransactionRecord(),
        BeginTransactionRecord(), level(name="b", feature_level=1),
    ], 0, 1, 0))  # fmt: skip
    assert loader.image().features == {}
    loader.load_batches(metadata_batch([EndTransactionRecord()], 5, 2, 0))
    image = loader.image()
    assert image.features == {"b": 1}
    assert (image.offset, image.record_epoch) == (5, 2)
    assert loader.epochs.end_of(1) == OffsetAndEpoch(5, 1)


def test_loader_skips_batches_that_the_snapshot_replaces() -> None:
    loader = MetadataLoader(MetadataImage())
    level = FeatureLevelRecord
    loader.load_snapshot(Snapshot([level(name="a", feature_level=3)]), SnapshotId(2, 1))
    loader.load_batches(metadata_batch([level(name="a", feature_level=1), NoOpRecord()], 0, 1, 0))
    loader.load_batches(metadata_batch([level(name="b", feature_level=1)], 2, 1, 0))
    assert loader.image().features == {"a": 3, "b": 1}
    assert loader.image().offset == 2
