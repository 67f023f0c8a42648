"""The small text files of a data directory and of a partition, as Kafka writes them.

offsets             recovery-point-, replication-, log-start- and cleaner-offset-checkpoint
epochs              leader-epoch-checkpoint of a partition
partition.metadata  the topic's id
meta.properties     whose directory it is (version 1)
clean shutdown      `.kafka_cleanshutdown`, JSON
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.log.segment.leader_epochs import EpochEntry
from barnabas.protocol.types import Uuid

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

_VERSION: Final = "0"
_META_VERSION: Final = "1"

Offsets = dict[tuple[str, int], int]
"""Offsets by topic and partition."""


class CheckpointError(ValueError):
    """A file that is not what Kafka writes; the message says what is wrong with it."""


def _lines(content: bytes, fields: int) -> list[list[str]]:
    """The entries of a checkpoint: version, count, and a line for each."""
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        raise CheckpointError("it is no text") from None
    if not lines and not content:
        return []  # Apache Kafka creates some of them empty
    if len(lines) < 2 or lines[0] != _VERSION or not lines[1].isdecimal():
        raise CheckpointError("it does not begin with version 0 and a count")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != int(lines[1]):
        raise CheckpointError(f"{len(entries)} entries where {lines[1]} are announced")
    if any(len(entry) != fields for entry in entries):
        raise CheckpointError(f"an entry has not {fields} fields")
    return entries


def decode_offsets(content: bytes) -> Offsets:
    """Read an offset checkpoint; CheckpointError."""
    offsets: Offsets = {}
    for topic, partition, offset in _lines(content, 3):
        try:
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            raise CheckpointError(f"not numbers: {partition} {offset}") from None
    return offsets


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Write an offset checkpoint."""
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def decode_epochs(content: bytes) -> list[EpochEntry]:
    """Read a leader epoch checkpoint; CheckpointError, also when it does not ascend."""
    entries: list[EpochEntry] = []
    for epoch, offset in _lines(content, 2):
        try:
            entry = EpochEntry(int(epoch), int(offset))
        except ValueError:
            raise CheckpointError(f"not numbers: {epoch} {offset}") from None
        if entries and not (
            entries[-1].epoch < entry.epoch and entries[-1].start_offset <= entry.start_offset
        ):
            raise CheckpointError(f"epoch {epoch} at {offset} is not behind the one before")
        entries.append(entry)
    return entries


def encode_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Write a leader epoch checkpoint."""
    lines = [f"{entry.epoch} {entry.start_offset}" for entry in entries]
    return ("\n".join([_VERSION, str(len(lines)), *lines]) + "\n").encode()


def decode_partition_metadata(content: bytes) -> Uuid:
    """The topic id; CheckpointError."""
    fields = _fields(content, ":")
    if fields.get("version") != "0":
        raise CheckpointError(f"version {fields.get('version')} is unknown")
    try:
        return Uuid.parse(fields.get("topic_id", ""))
    except ValueError as error:
        raise CheckpointError(str(error)) from None


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    """Name the topic's id (KIP-516)."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


class MetaProperties(NamedTuple):
    """Which cluster and node a data directory belongs to, and its own id."""

    cluster_id: str
    node_id: int
    directory_id: Uuid | None

    def encode(self) -> bytes:
        """The file's content, version 1."""
        lines = ["#", f"node.id={self.node_id}"]
        if self.directory_id is not None:
            lines.append(f"directory.id={self.directory_id}")
        lines += [f"version={_META_VERSION}", f"cluster.id={self.cluster_id}"]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes) -> "MetaProperties":
        """Read the file; CheckpointError."""
        fields = _fields(content, "=")
        if fields.get("version") != _META_VERSION:
            raise CheckpointError(f"version {fields.get('version')} is not {_META_VERSION}")
        try:
            directory_id = Uuid.parse(fields["directory.id"]) if "directory.id" in fields else None
            return cls(fields["cluster.id"], int(fields["node.id"]), directory_id)
        except KeyError as error:
            raise CheckpointError(f"{error.args[0]} is missing") from None
        except ValueError as error:
            raise CheckpointError(str(error)) from None


def _fields(content: bytes, separator: str) -> dict[str, str]:
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        raise CheckpointError("it is no text") from None
    fields: dict[str, str] = {}
    for line in lines:
        if line.strip() and not line.startswith("#"):
            name, _, value = line.partition(separator)
            fields[name.strip()] = value.strip()
    return fields


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """Say that all was closed in order, by the broker of this epoch (KIP-966)."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_clean_shutdown(content: bytes) -> int:
    """The broker epoch of the last run, -1 if unknown (older Kafkas leave the file empty)."""
    try:
        return int(json.loads(content)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1
