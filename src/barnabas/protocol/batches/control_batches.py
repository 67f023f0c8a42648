"""Control records: their keys and types, and the markers that end transactions.

A control record's key is its version and type, its value is a message of
`protocol.records.control_records`. The codecs here are the plain form of the two declared there
that a broker reads for every transaction; a test holds them equal to the declarations.
Source: `org.apache.kafka.common.record.ControlRecordType` and `EndTransactionMarker`.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record


class ControlType(IntEnum):
    """The types of control records."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class TransactionMarker(NamedTuple):
    """The end of a transaction in a partition."""

    is_commit: bool
    coordinator_epoch: int


MIRROR_ENDED: Final = -2
"""The coordinator epoch of markers without a coordinator: the promotion of a mirror wrote them."""

_KEY: Final = Struct(">hh")
_KEY_VERSION: Final = 0
_MARKER_VALUE: Final = Struct(">hi")
_MARKER_VALUE_VERSION: Final = 0


def control_key(kind: ControlType) -> bytes:
    """Return the key of a control record."""
    return _KEY.pack(_KEY_VERSION, kind)


def control_type(key: bytes | None) -> int | None:
    """Return the type in a control record's key, known or not; None without a complete key."""
    if key is None or len(key) < _KEY.size:
        return None
    return _KEY.unpack_from(key)[1]


def decode_marker(key: bytes | None, value: bytes | None) -> TransactionMarker | None:
    """Return the transaction marker in a control record; None for any other control record."""
    kind = control_type(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if value is None or len(value) < _MARKER_VALUE.size:
        return None
    _, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    return TransactionMarker(kind == ControlType.COMMIT, coordinator_epoch)


def marker_batch(
    marker: TransactionMarker, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytearray:
    """Return the control batch that ends a producer's transaction in a partition."""
    record = Record(
        offset=0,
        timestamp=timestamp_ms,
        key=control_key(ControlType.COMMIT if marker.is_commit else ControlType.ABORT),
        value=_MARKER_VALUE.pack(_MARKER_VALUE_VERSION, marker.coordinator_epoch),
    )
    return build_batch(
        [record],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
