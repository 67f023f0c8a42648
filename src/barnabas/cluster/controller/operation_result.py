"""What a controller operation gives back, and what it looks at."""

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.config import NodeConfig
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid

T = TypeVar("T")


@attrs.frozen(slots=True)
class ControllerResult(Generic[T]):
    """The records to append (as one batch), and the response for when they are committed.

    With a `kraft_version` the quorum states that it goes over to it, before the records.
    """

    records: list[Message]
    response: T
    kraft_version: int | None = None


@attrs.frozen(slots=True)
class IdBlock:
    """A run of producer ids that belongs to one broker."""

    first_producer_id: int
    size: int


@attrs.frozen(slots=True)
class Context:
    """The state and the sources of chance that an operation decides with."""

    image: MetadataImage
    config: NodeConfig
    new_id: Callable[[], Uuid]
    random: Callable[[int], int]
