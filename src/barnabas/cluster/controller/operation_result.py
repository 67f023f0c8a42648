"""The input and the result of a controller operation."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Generic, TypeVar

import attrs

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.config import NodeConfig
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid

T = TypeVar("T")

# Kafka's QuorumController.MAX_RECORDS_PER_USER_OP.
RECORDS_PER_REQUEST_MAX: Final = 10_000


@attrs.frozen(slots=True)
class ControllerResult(Generic[T]):
    """The records to append, and the response to send when they are committed.

    They are appended as one batch. Those of a result that is not atomic may be split into several:
    after a failure, only the first of them may be committed. With a `kraft_version`, the quorum is
    upgraded to it before the records are appended.

    A result that is not `is_complete` has the records of one run of a large operation. The request
    is decided again after they are appended, until its result is complete; only the last response
    is sent.
    """

    records: list[Message]
    response: T
    kraft_version: int | None = None
    is_atomic: bool = True
    is_complete: bool = True


Charge = Callable[[int], None]
"""Counts partitions that a client creates or deletes. Raises KafkaError when it may not."""


def charge_nothing(partitions: int, /) -> None:
    """Count nothing, for clients without a quota."""


@attrs.frozen(slots=True)
class Context:
    """The state, configuration and sources of randomness that an operation uses.

    `leaving` are brokers that are being fenced, replaced or unregistered in several runs. The image
    shows them as unfenced until the last run. `charge` counts partitions in the quota of the client
    before they are created or deleted; it raises KafkaError THROTTLING_QUOTA_EXCEEDED.
    """

    image: MetadataImage
    config: NodeConfig
    new_id: Callable[[], Uuid]
    random: Callable[[int], int]
    leaving: Collection[int] = ()
    charge: Charge = charge_nothing
    topic_values: dict[tuple[str, str], Any] = attrs.field(
        init=False, eq=False, repr=False, factory=dict[tuple[str, str], Any]
    )
    """Effective values of topics that were looked up in this image, by topic and property."""

    def is_active(self, broker_id: int) -> bool:
        """True when a broker may join ISRs and lead."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active and broker_id not in self.leaving


def check_record_count(records: Sequence[Message]) -> None:
    """Raises KafkaError POLICY_VIOLATION when a request needs too many records for one batch."""
    if len(records) > RECORDS_PER_REQUEST_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        )
