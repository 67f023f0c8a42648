"""Directories formatted by `barnabas format` and by Apache Kafka's `kafka-storage format`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.cluster.metadata.feature_levels import SUPPORTED
from barnabas.cluster.quorum.metadata_snapshot import BOOTSTRAP_CHECKPOINT, decode_snapshot
from barnabas.log.checkpoints import META_PROPERTIES, MetaProperties
from barnabas.testing import Node
from barnabas.testing.free_ports import free_ports
from compat_tests import jars
from compat_tests.servers import KafkaProcess

pytestmark = jars.needed

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
VOTERS = "1@127.0.0.1:{port}:JEXY6aqzQY-32P5TStzaFg,2@127.0.0.1:19094:MvDxzVmcRsaTz33bUuRU6A"
QUORUM_FILE = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
DUMP = "org.apache.kafka.tools.DumpLogSegments"


def properties(data: Path, client_port: int = 19092, controller_port: int = 19093) -> Path:
    file = data.parent / f"{data.name}.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{client_port},"
        f"CONTROLLER://127.0.0.1:{controller_port}\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}\n"
        f"log.dirs={data},{data}2\n"
    )
    return file


def ours(data: Path, *options: str) -> None:
    command = [sys.executable, "-m", "barnabas", "format", "-c", str(properties(data))]
    subprocess.run([*command, "-t", CLUSTER, *options], check=True)


def kafkas(data: Path, *options: str) -> None:
    file = str(properties(data))
    jars.java("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", file, *options)


def levels(data: Path) -> dict[str, int]:
    records = decode_snapshot((data / BOOTSTRAP_CHECKPOINT).read_bytes()).records
    found = {each.name: each.feature_level for each in records}
    return {name: level for name, level in found.items() if name in SUPPORTED}


@pytest.mark.parametrize(
    "options",
    [("-I", VOTERS.format(port=19093)), ("-N",), ("-N", "-r", "3.7")],
    ids=["initial controllers", "no initial controllers", "release"],
)
def test_directories_have_the_files_that_kafka_writes(tmp_path: Path, options: list[str]) -> None:
    kafkas(tmp_path / "kafka", *options)
    ours(tmp_path / "ours", *options)
    for kafka, own in (("kafka", "ours"), ("kafka2", "ours2")):
        written, expected = tmp_path / own, tmp_path / kafka
        names = {str(path.relative_to(expected)) for path in expected.rglob("*.*")}
        assert {str(path.relative_to(written)) for path in written.rglob("*.*")} == names
        if "-N" in options or own == "ours2":
            assert QUORUM_FILE not in names
    mine, other = tmp_path / "ours", tmp_path / "kafka"
    assert levels(mine) == levels(other)
    if "-I" in options:
        quorum, expected_quorum = (
            decode_snapshot((data / QUORUM_FILE).read_bytes()) for data in (mine, other)
        )
        assert quorum.voters == expected_quorum.voters
        assert quorum.kraft_version == expected_quorum.kraft_version
        stored = MetaProperties.decode((mine / META_PROPERTIES).read_bytes())
        assert stored == MetaProperties.decode((other / META_PROPERTIES).read_bytes())
        dump = jars.java(DUMP, "--cluster-metadata-decoder", "--files", mine / QUORUM_FILE).stdout
        assert re.search(
            r"SnapshotHeader .*KRaftVersion .*KRaftVoters .*SnapshotFooter", dump, re.S
        )
    info = jars.java("kafka.tools.StorageTool", "info", "-c", properties(mine)).stdout
    assert "Found metadata" in info
    assert "Found problem" not in info


def test_apache_kafka_starts_on_directories_that_we_formatted(tmp_path: Path) -> None:
    kafka = KafkaProcess()
    try:
        properties_file = kafka.properties_file
        kafka.write_properties()
        command = [sys.executable, "-m", "barnabas", "format", "-c", str(properties_file)]
        subprocess.run([*command, "-t", CLUSTER, "--standalone"], check=True)
        kafka.start()
    finally:
        kafka.close()


def test_barnabas_starts_on_directories_that_apache_kafka_formatted(tmp_path: Path) -> None:
    client_port, controller_port = free_ports(2)
    data = tmp_path / "data"
    file = properties(data, client_port, controller_port)
    voters = VOTERS.format(port=controller_port).partition(",")[0]
    options = ("-t", CLUSTER, "-c", str(file), "--initial-controllers", voters)
    jars.java("kafka.tools.StorageTool", "format", *options)
    listeners = f"PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port}"
    with Node(data, {"listeners": listeners}) as node:
        assert node.server is not None
        assert node.server.cluster_id == CLUSTER
