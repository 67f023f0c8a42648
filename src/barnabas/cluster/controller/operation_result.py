"""The input and the result of a controller operation."""

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
    """The records to append as one batch, and the response to send when they are committed.

    With a `kraft_version`, the quorum is upgraded to it before the records are appended.
    """

    records: list[Message]
    response: T
    kraft_version: int | None = None


@attrs.frozen(slots=True)
class Context:
    """The state, configuration and sources of randomness that an operation uses."""

    image: MetadataImage
    config: NodeConfig
    new_id: Callable[[], Uuid]
    random: Callable[[int], int]
