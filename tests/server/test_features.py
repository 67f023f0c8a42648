"""A node at an older metadata.version writes only its records, and follows an upgrade."""

import socket
import struct
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cluster.metadata.feature_levels import METADATA_VERSION, METADATA_VERSION_LATEST
from barnabas.cluster.metadata.image import DIRECTORY_MIGRATING, MetadataImage, PartitionImage
from barnabas.cluster.quorum.metadata_snapshot import SnapshotId, decode_snapshot
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.protocol.records.metadata_records import PartitionRecord, RegisterBrokerRecord
from barnabas.server.node import data_directories
from barnabas.server.quorum.quorum_files import format_directory
from barnabas.testing import Node
from barnabas.testing.eventually import wait_until

# IBP_3_4_IV0: no registrations of controllers, and no directories.
OLD = 8
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "300"}


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to format for an older release."""
    formatted = partial(format_directory, features={METADATA_VERSION: OLD})
    monkeypatch.setattr(data_directories, "format_directory", formatted)
    return tmp_path


def image_of(node: Node) -> MetadataImage:
    assert node.server is not None
    return node.server.image


def partition_of(node: Node, topic: str) -> PartitionImage:
    return image_of(node).topics_by_name[topic].partitions[0]


def create(node: Node, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)


def write(node: Node, topic: str) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(topic, b"value")
    assert producer.flush(60) == 0


def raise_metadata_version(node: Node) -> UpdateFeaturesResponse:
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=METADATA_VERSION, max_version_level=METADATA_VERSION_LATEST
    )
    request = UpdateFeaturesRequest(feature_updates=[update])
    with socket.create_connection(("127.0.0.1", node.port), timeout=60) as connection:
        connection.sendall(b"".join(encode_request(1, "test", request, 2)))
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            frame = stream.read(size)
    return UpdateFeaturesResponse.decode(frame[5:], 2)  # after the response header


def test_metadata_version_limits_registrations_until_it_is_raised(old: Path) -> None:
    with Node(old) as node:
        create(node, "before")
        write(node, "before")
        image = image_of(node)
        assert image.features == {METADATA_VERSION: OLD}
        assert image.controllers == {}
        before = partition_of(node, "before")
        assert (before.partition_epoch, before.directory(1)) == (0, DIRECTORY_MIGRATING)
        assert image.brokers[1].directories == ()
        epoch = image.brokers[1].epoch
        answer = raise_metadata_version(node)
        assert (answer.error_code, answer.error_message) == (0, None)
        create(node, "after")
        image = image_of(node)
        assert image.features == {METADATA_VERSION: METADATA_VERSION_LATEST}
        assert list(image.controllers) == [1]
        (directory,) = image.brokers[1].directories
        assert (image.brokers[1].epoch, image.brokers[1].fenced) == (epoch, False)
        assert partition_of(node, "after").directory(1) == directory
        wait_until(lambda: partition_of(node, "before").directory(1) == directory)
        node.stop()
        node.start()
        assert {"before", "after"} <= image_of(node).topics_by_name.keys()


def test_snapshot_has_only_what_its_metadata_version_supports(old: Path) -> None:
    with Node(old, SNAPSHOTS) as node:
        for number in range(10):
            create(node, f"topic-{number}")
    directory = old / "__cluster_metadata-0"
    found = (SnapshotId.parse(path.name) for path in directory.iterdir())
    latest = max(each for each in found if each is not None)
    assert latest.end_offset > 0
    records = decode_snapshot((directory / latest.file_name).read_bytes()).records
    partitions = [each for each in records if isinstance(each, PartitionRecord)]
    brokers = [each for each in records if isinstance(each, RegisterBrokerRecord)]
    assert len(partitions) > 2
    assert not any(partition.directories for partition in partitions)
    assert [broker.log_dirs for broker in brokers] == [[]]
