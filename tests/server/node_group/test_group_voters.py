"""The voters that a group's directories state."""

from pathlib import Path

from barnabas.cluster.quorum.metadata_snapshot import SnapshotId, control_record
from barnabas.cluster.quorum.voters import VoterSet
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.server.node_group.group_directories import format_group
from barnabas.server.node_group.group_plan import plan_group
from barnabas.server.node_group.group_voters import latest_voters


def test_latest_voters_of_a_missing_directory_returns_none(tmp_path: Path) -> None:
    assert latest_voters(tmp_path / "missing") is None


def formatted(data: Path) -> VoterSet:
    plan = plan_group(3, host="127.0.0.1", port=9092, data=data, given={}, has_file=False)
    list(format_group(plan, 1))
    voters = latest_voters(data)
    assert voters is not None
    return voters


def test_latest_voters_are_those_of_the_format(tmp_path: Path) -> None:
    assert sorted(formatted(tmp_path).voters) == [1, 2, 3]


def test_latest_voters_are_those_of_the_last_record_in_a_log(tmp_path: Path) -> None:
    first = formatted(tmp_path)
    fewer = VoterSet.of(first.voters[1], first.voters[2])
    directory = tmp_path / "node-1" / "__cluster_metadata-0"
    record = control_record(fewer.record(), 7, 1)
    (directory / f"{7:020d}.log").write_bytes(
        build_batch([record], base_offset=7, leader_epoch=2, is_control=True)
    )
    assert latest_voters(tmp_path) == fewer


def test_latest_voters_skips_a_damaged_snapshot(tmp_path: Path) -> None:
    voters = formatted(tmp_path)
    directory = tmp_path / "node-2" / "__cluster_metadata-0"
    (directory / SnapshotId(9, 1).file_name).write_bytes(b"damaged")
    assert latest_voters(tmp_path) == voters
