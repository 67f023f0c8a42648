"""What the directories of logs are called, by which a start knows what each is."""

import re
import uuid
from typing import Final

from barnabas.protocol.errors import ErrorCode, KafkaError

_PARTITION: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})")  # as we write it: it is made again
_PARTITION_MAX: Final = (1 << 31) - 1
_DELETED: Final = re.compile(r".+\.[0-9a-f]{32}-delete")
_FUTURE: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})\.[0-9a-f]{32}-future")
_NAME_LENGTH_MAX: Final = 255


def partition_of(name: str) -> tuple[str, int] | None:
    """Whose log a directory of that name is, None for one that is no partition's."""
    match = _PARTITION.fullmatch(name)
    if match is None or int(match[2]) > _PARTITION_MAX:
        return None
    return match[1], int(match[2])


def copied_partition_of(name: str) -> tuple[str, int] | None:
    """Of whose log it is the copy on its way to another data directory; None if it is none."""
    match = _FUTURE.fullmatch(name)
    return match and (match[1], int(match[2]))


def is_deleted(name: str) -> bool:
    """Whether it is to be removed with all that is in it."""
    return _DELETED.fullmatch(name) is not None


def aside_name(topic: str, partition: int, purpose: str) -> str:
    """What a directory that is no log any more is called, cut to what file systems take."""
    suffix = f"-{partition}.{uuid.uuid4().hex}-{purpose}"
    return topic[: _NAME_LENGTH_MAX - len(suffix)] + suffix


def future_name(topic: str, partition: int) -> str:
    """What the copy of a log is called on its way.

    Not cut: INVALID_TOPIC_EXCEPTION for a topic of more than 213 characters or so, which cannot be
    moved (`ReplicaManager.alterReplicaLogDirs`, KAFKA-4893).
    """
    name = f"{topic}-{partition}.{uuid.uuid4().hex}-future"
    if len(name) > _NAME_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
    return name
