"""Directories of a group: one list of voters for all, also after an interruption."""

import shutil
from pathlib import Path

import pytest

from barnabas.cluster.quorum.metadata_snapshot import decode_snapshot
from barnabas.cluster.quorum.voters import VoterSet
from barnabas.log import DataDirectoryError
from barnabas.log.checkpoints import META_PROPERTIES, MetaProperties
from barnabas.server.node_group.group_directories import format_group
from barnabas.server.node_group.group_plan import GroupPlan, plan_group

QUORUM_FILE = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def plan(data: Path, count: int = 4) -> GroupPlan:
    return plan_group(count, host="127.0.0.1", port=9092, data=data, given={}, has_file=False)


def voters_of(directory: Path) -> VoterSet | None:
    file = directory / QUORUM_FILE
    return decode_snapshot(file.read_bytes()).voters if file.exists() else None


def properties_of(directory: Path) -> MetaProperties:
    return MetaProperties.decode((directory / META_PROPERTIES).read_bytes())


def test_format_group_gives_voters_one_list_and_all_nodes_one_cluster(tmp_path: Path) -> None:
    assert list(format_group(plan(tmp_path), 1)) == []
    directories = [tmp_path / f"node-{number}" for number in (1, 2, 3, 4)]
    voters = voters_of(directories[0])
    assert voters is not None
    assert [voters_of(each) for each in directories] == [voters, voters, voters, None]
    found = [properties_of(each) for each in directories]
    assert len({each.cluster_id for each in found}) == 1
    assert [key.directory_id for key in voters.replica_keys] == [
        each.directory_id for each in found[:3]
    ]


def test_format_group_again_changes_nothing(tmp_path: Path) -> None:
    list(format_group(plan(tmp_path), 1))
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert list(format_group(plan(tmp_path), 2)) == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


def test_format_group_after_an_interruption_keeps_the_list(tmp_path: Path) -> None:
    list(format_group(plan(tmp_path), 1))
    voters = voters_of(tmp_path / "node-1")
    shutil.rmtree(tmp_path / "node-3")
    (tmp_path / "node-2" / META_PROPERTIES).unlink()
    list(format_group(plan(tmp_path), 2))
    assert voters_of(tmp_path / "node-3") == voters
    assert voters is not None
    for number in (2, 3):
        own = properties_of(tmp_path / f"node-{number}").directory_id
        assert own == voters.voters[number].key.directory_id


def test_format_group_never_replaces_a_voter_of_a_quorum_that_has_run(tmp_path: Path) -> None:
    list(format_group(plan(tmp_path), 1))
    (tmp_path / "node-1" / "__cluster_metadata-0" / "quorum-state").touch()
    shutil.rmtree(tmp_path / "node-3")
    (line,) = format_group(plan(tmp_path), 2)
    assert "node 3 joins as an observer" in line
    assert voters_of(tmp_path / "node-3") is None


def test_format_group_adds_brokers_to_the_cluster(tmp_path: Path) -> None:
    list(format_group(plan(tmp_path), 1))
    (tmp_path / "node-1" / "__cluster_metadata-0" / "quorum-state").touch()
    assert list(format_group(plan(tmp_path, 6), 2)) == []
    assert (
        properties_of(tmp_path / "node-6").cluster_id
        == properties_of(tmp_path / "node-1").cluster_id
    )


def test_format_group_with_directories_of_two_clusters_is_refused(tmp_path: Path) -> None:
    list(format_group(plan(tmp_path), 1))
    other = MetaProperties("another", 2, None)
    (tmp_path / "node-2" / META_PROPERTIES).write_bytes(other.encode())
    with pytest.raises(DataDirectoryError, match="different clusters"):
        list(format_group(plan(tmp_path), 2))
