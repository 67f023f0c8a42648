"""Encode and decode the small text files of a data directory and of a partition, as Kafka does.

offsets             recovery-point-, replication-, log-start- and cleaner-offset-checkpoint
epochs              leader-epoch-checkpoint of a partition
mirror end          mirror-end-offset of a partition that was a mirror, which only barnabas has
partition.metadata  the topic's id
meta.properties     the cluster and node that own the directory (version 1)
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
MIRROR_END: Final = "mirror-end-offset"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

UNREGISTERED: Final = -1
"""The broker epoch of a run that has not registered with a controller."""

_VERSION: Final = "0"
_META_VERSION: Final = "1"

Offsets = dict[tuple[str, int], int]
"""Offsets by topic and partition."""


class CheckpointError(ValueError):
    """A file does not have Kafka's format; the message is the fault."""


def _lines(content: bytes, fields: int) -> list[list[str]]:
    """Return the entries of a checkpoint file: version, count, then one line per entry."""
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        raise CheckpointError("it is not text") from None
    if not lines and not content:
        return []  # Apache Kafka creates some of these files empty
    if len(lines) < 2 or lines[0] != _VERSION or not lines[1].isdecimal():
        raise CheckpointError("it does not begin with version 0 and a count")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != int(lines[1]):
        raise CheckpointError(f"it has {len(entries)} entries, but its count is {lines[1]}")
    if any(len(entry) != fields for entry in entries):
        raise CheckpointError(f"an entry does not have {fields} fields")
    return entries


def decode_offsets(content: bytes) -> Offsets:
    """Return the offsets in a checkpoint. Raises CheckpointError."""
    offsets: Offsets = {}
    for topic, partition, offset in _lines(content, 3):
        try:
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            raise CheckpointError(f"not numbers: {partition} {offset}") from None
    return offsets


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Return the content of an offset checkpoint."""
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def decode_epochs(content: bytes) -> list[EpochEntry]:
    """Return the entries of a leader epoch checkpoint.

    Raises CheckpointError, also when epochs or offsets do not ascend.
    """
    entries: list[EpochEntry] = []
    for epoch, offset in _lines(content, 2):
        try:
            entry = EpochEntry(int(epoch), int(offset))
        except ValueError:
            raise CheckpointError(f"not numbers: {epoch} {offset}") from None
        if entries and not (
            entries[-1].epoch < entry.epoch and entries[-1].start_offset <= entry.start_offset
        ):
            raise CheckpointError(f"epoch {epoch} at {offset} does not follow the entry before it")
        entries.append(entry)
    return entries


def encode_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Return the content of a leader epoch checkpoint."""
    lines = [f"{entry.epoch} {entry.start_offset}" for entry in entries]
    return ("\n".join([_VERSION, str(len(lines)), *lines]) + "\n").encode()


def decode_mirror_end(content: bytes) -> int:
    """Return the offset at which a partition's mirror ended. Raises CheckpointError."""
    ((offset,),) = _lines(content, 1) or [["-1"]]
    try:
        return int(offset)
    except ValueError:
        raise CheckpointError(f"not a number: {offset}") from None


def encode_mirror_end(offset: int) -> bytes:
    """Return the content of the file with the offset at which a partition's mirror ended."""
    return f"{_VERSION}\n1\n{offset}\n".encode()


def decode_partition_metadata(content: bytes) -> Uuid:
    """Return the topic id in `partition.metadata`. Raises CheckpointError."""
    fields = _fields(content, ":")
    if fields.get("version") != "0":
        raise CheckpointError(f"version {fields.get('version')} is unknown")
    try:
        return Uuid.parse(fields.get("topic_id", ""))
    except ValueError as error:
        raise CheckpointError(str(error)) from None


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    """Return the content of `partition.metadata` (KIP-516)."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


class MetaProperties(NamedTuple):
    """The cluster and node that own a data directory, and the directory's id."""

    cluster_id: str
    node_id: int
    directory_id: Uuid | None

    def encode(self) -> bytes:
        """Return the content of `meta.properties`, version 1."""
        lines = ["#", f"node.id={self.node_id}"]
        if self.directory_id is not None:
            lines.append(f"directory.id={self.directory_id}")
        lines += [f"version={_META_VERSION}", f"cluster.id={self.cluster_id}"]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes) -> "MetaProperties":
        """Return the properties in the file. Raises CheckpointError."""
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
        raise CheckpointError("it is not text") from None
    fields: dict[str, str] = {}
    for line in lines:
        if line.strip() and not line.startswith("#"):
            name, _, value = line.partition(separator)
            fields[name.strip()] = value.strip()
    return fields


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """Return the content of the clean shutdown file of a broker epoch (KIP-966)."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_clean_shutdown(content: bytes) -> int:
    """Return the broker epoch of the last run; -1 if the file is empty, as in older Kafka."""
    try:
        return int(json.loads(content)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return UNREGISTERED
