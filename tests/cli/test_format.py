"""`barnabas format`: files, messages and refusals. Messages are those of Apache Kafka 4.3.0."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramMechanism

from barnabas.cluster.quorum.metadata_snapshot import BOOTSTRAP_CHECKPOINT, decode_snapshot
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.log.checkpoints import META_PROPERTIES, MetaProperties
from barnabas.protocol.types import Uuid
from barnabas.testing import Node
from tests.cli.conftest import Barnabas

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
FIRST, SECOND = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"
VOTERS = f"1@127.0.0.1:19093:{FIRST},2@127.0.0.1:19094:{SECOND}"
QUORUM_FILE = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def properties_of(directory: Path) -> MetaProperties:
    return MetaProperties.decode((directory / META_PROPERTIES).read_bytes())


def configured(tmp_path: Path, **changes: str) -> Path:
    """Write a configuration with the directories a and b."""
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
        "controller.quorum.bootstrap.servers": "127.0.0.1:19093,127.0.0.1:19094",
        "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items() if value))
    return file


def test_format_with_initial_controllers_takes_the_directory_id_from_the_list(
    tmp_path: Path, barnabas: Barnabas
) -> None:
    file = configured(tmp_path)
    done = barnabas("format", "-c", str(file), "-t", CLUSTER, "-I", VOTERS)
    first, second = tmp_path / "a", tmp_path / "b"
    assert done.lines == [
        f"Formatting data directory {second} with metadata.version 4.3-IV0.",
        f"Formatting dynamic metadata voter directory {first} with metadata.version 4.3-IV0.",
    ]
    assert properties_of(first) == MetaProperties(CLUSTER, 1, Uuid.parse(FIRST))
    assert properties_of(second).directory_id not in (None, Uuid.parse(FIRST))
    assert (second / BOOTSTRAP_CHECKPOINT).exists()
    assert not (second / "__cluster_metadata-0").exists()
    voters = decode_snapshot((first / QUORUM_FILE).read_bytes()).voters
    assert voters is not None
    assert voters.replica_keys == [
        ReplicaKey(1, Uuid.parse(FIRST)),
        ReplicaKey(2, Uuid.parse(SECOND)),
    ]


def test_format_without_initial_controllers_writes_no_voters(
    tmp_path: Path, barnabas: Barnabas
) -> None:
    file = configured(tmp_path)
    done = barnabas("format", "-c", str(file), "-t", CLUSTER, "-N")
    assert "Formatting metadata directory" in done.out
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()
    assert (tmp_path / "a" / BOOTSTRAP_CHECKPOINT).exists()


def test_format_of_a_broker_needs_no_choice_of_voters(tmp_path: Path, barnabas: Barnabas) -> None:
    file = configured(tmp_path, process_roles="broker", listeners="PLAINTEXT://127.0.0.1:19092")
    assert barnabas("format", "-c", str(file), "-t", CLUSTER).code == 0
    assert properties_of(tmp_path / "a").cluster_id == CLUSTER


def test_format_standalone_without_a_cluster_id_makes_one(
    tmp_path: Path, barnabas: Barnabas
) -> None:
    done = barnabas("format", "--data", str(tmp_path / "data"), "--standalone", "--node-id", "7")
    properties = properties_of(tmp_path / "data")
    assert done.lines[0] == f"Using cluster id {properties.cluster_id}."
    assert properties.node_id == 7


def test_format_with_features_and_a_release_writes_their_levels(
    tmp_path: Path, barnabas: Barnabas
) -> None:
    options = ("--release-version", "4.0-IV3", "--feature", "group.version=0")
    done = barnabas("format", "--data", str(tmp_path / "data"), "--standalone", *options)
    assert "with metadata.version 4.0-IV3." in done.out
    records = decode_snapshot((tmp_path / "data" / BOOTSTRAP_CHECKPOINT).read_bytes()).records
    levels = {each.name: each.feature_level for each in records}  # pyright: ignore
    assert levels == {"metadata.version": 25, "transaction.version": 2}


def test_format_with_credentials_gives_the_cluster_its_first_users(
    tmp_path: Path, barnabas: Barnabas
) -> None:
    users = ("SCRAM-SHA-256=[name=a,password=secret]", "SCRAM-SHA-512=[name=a,password=secret]")
    options = [option for user in users for option in ("--add-scram", user)]
    done = barnabas("format", "--data", str(tmp_path / "data"), "-s", *options)
    assert done.code == 0, done.err
    with Node(tmp_path / "data") as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        described = admin.describe_user_scram_credentials(["a"])["a"].result(60)
        found = {(each.mechanism, each.iterations) for each in described.scram_credential_infos}
    assert found == {
        (ScramMechanism.SCRAM_SHA_256, 4096),
        (ScramMechanism.SCRAM_SHA_512, 4096),
    }


def test_format_of_a_formatted_directory_is_refused_or_ignored(
    tmp_path: Path, barnabas: Barnabas
) -> None:
    file = configured(tmp_path)
    command = ("format", "-c", str(file), "-t", CLUSTER, "-I", VOTERS)
    assert barnabas(*command).code == 0
    again = barnabas(*command)
    assert (again.code, "is already formatted. Use --ignore-formatted" in again.err) == (1, True)
    (tmp_path / "b" / META_PROPERTIES).unlink()
    assert "Formatting data directory" in barnabas(*command, "-g").out
    assert "All of the log directories are already formatted." in barnabas(*command, "-g").out
    other = barnabas("format", "-c", str(file), "-t", SECOND, "-g", "-N")
    assert f"Expected {SECOND}, but read {CLUSTER}" in other.err


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, (), "you must specify one of the following: --standalone, --initial-controllers"),
        (
            {"process_roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:19092"},
            ("-s",),
            "You can only use --standalone on a controller.",
        ),
        (
            {"controller_quorum_voters": "1@127.0.0.1:19093"},
            ("-s",),
            "You cannot specify controller.quorum.voters and format the node with",
        ),
        ({}, ("-s", "-f", "kraft.version=0"), "Cannot set kraft.version to 0"),
        ({}, ("-s", "-f", "foo.version=1"), "Unsupported feature: foo.version."),
        ({}, ("-s", "-r", "9.9"), "Unknown metadata.version '9.9'."),
        ({}, ("-I", "1@127.0.0.1:19093"), "it must be id@host:port:directoryId"),
        ({}, ("-I", f"x@h:1:{FIRST}"), "Failed to parse node id"),
        ({}, ("-I", "1@h:1:xx"), "Failed to parse directory ID"),
        ({}, ("-I", f"1@h:0:{FIRST}"), "Failed to parse port"),
        ({}, ("-s", "-S", "SCRAM-SHA-256=[name=a]"), "You must supply one of 'password'"),
        (
            {},
            ("-s", "-r", "3.4", "-S", "SCRAM-SHA-256=[name=a,password=p]"),
            "SCRAM is only supported in metadata.version 3.5-IV2 or later.",
        ),
        ({}, ("-I", f"1@h:1:{FIRST},1@h:2:{SECOND}"), "Node id 1 was specified more than once"),
    ],
)
def test_format_refuses_what_kafka_refuses(
    tmp_path: Path,
    barnabas: Barnabas,
    changes: dict[str, str],
    options: tuple[str, ...],
    message: str,
) -> None:
    file = configured(tmp_path, **changes)
    done = barnabas("format", "-c", str(file), "-t", CLUSTER, *options)
    assert done.code == 1
    assert message in done.err
    assert not (tmp_path / "a").exists()


def test_format_with_two_choices_of_voters_is_wrong_usage(
    tmp_path: Path, barnabas: Barnabas
) -> None:
    done = barnabas("format", "--data", str(tmp_path), "-s", "-N", "-t", CLUSTER)
    assert done.code == 2


def test_format_prints_a_random_uuid(barnabas: Barnabas) -> None:
    Uuid.parse(barnabas("format", "--random-uuid").out.strip())


def test_node_with_an_unformatted_directory_of_a_cluster_does_not_start(tmp_path: Path) -> None:
    config = {"controller.quorum.bootstrap.servers": "127.0.0.1:19093,127.0.0.1:19094"}
    with pytest.raises(Exception, match=r"is not formatted .* run 'barnabas format'"):
        Node(tmp_path / "data", config).start()
    assert not (tmp_path / "data" / META_PROPERTIES).exists()
