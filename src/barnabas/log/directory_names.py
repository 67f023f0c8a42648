"""The names of log directories, from which a start recognises what each directory is."""

import re
import uuid
from typing import Final

from barnabas.protocol.errors import ErrorCode, KafkaError

_PARTITION: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})")  # only as barnabas and Kafka write it
_PARTITION_MAX: Final = (1 << 31) - 1
_DELETED: Final = re.compile(r".+\.[0-9a-f]{32}-delete")
_FUTURE: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})\.[0-9a-f]{32}-future")
_NAME_LENGTH_MAX: Final = 255


def partition_of(name: str) -> tuple[str, int] | None:
    """Return the topic and partition of a log directory's name; None for any other name."""
    match = _PARTITION.fullmatch(name)
    if match is None or int(match[2]) > _PARTITION_MAX:
        return None
    return match[1], int(match[2])


def copied_partition_of(name: str) -> tuple[str, int] | None:
    """Return the topic and partition of a `-future` directory's name; None for any other name."""
    match = _FUTURE.fullmatch(name)
    return match and (match[1], int(match[2]))


def is_deleted(name: str) -> bool:
    """True for a directory that must be removed with its content."""
    return _DELETED.fullmatch(name) is not None


def renamed_name(topic: str, partition: int, purpose: str) -> str:
    """Return a unique name for a directory that is no longer a log, cut to a valid length.

    `purpose` is "delete" or "stray".
    """
    suffix = f"-{partition}.{uuid.uuid4().hex}-{purpose}"
    return topic[: _NAME_LENGTH_MAX - len(suffix)] + suffix


def future_name(topic: str, partition: int) -> str:
    """Return a unique name for the copy of a log that moves to another data directory.

    The name is not cut. Raises INVALID_TOPIC_EXCEPTION for a topic of more than about 213
    characters, which cannot be moved (`ReplicaManager.alterReplicaLogDirs`, KAFKA-4893).
    """
    name = f"{topic}-{partition}.{uuid.uuid4().hex}-future"
    if len(name) > _NAME_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
    return name
