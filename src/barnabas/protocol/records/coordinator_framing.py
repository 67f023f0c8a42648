"""Messages in coordinator records: the key starts with its type, the value with its
version.

Source: `CoordinatorRecordSerde`. Keys have one version, 0.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages_base import Message

_NUMBER: Final = Struct(">h")

RecordTypes = tuple[type[Message], type[Message]]
"""The class of a key and the class of its value."""


class UnknownRecordTypeError(ProtocolError):
    """A record type that this coordinator does not know; a newer one may have written it."""

    def __init__(self, record_type: int) -> None:
        super().__init__(f"unknown record type {record_type}")
        self.record_type = record_type


def encode_coordinator_key(message: Message) -> bytes:
    """Return a record's key: the record type, then the message."""
    return _NUMBER.pack(message.RECORD_TYPE) + message.encode(0)


def encode_coordinator_value(message: Message, version: int) -> bytes:
    """Return a record's value: the version, then the message."""
    return _NUMBER.pack(version) + message.encode(version)


def decode_coordinator_record(
    types: Callable[[int], RecordTypes | None], key: bytes | None, value: bytes | None
) -> tuple[Message, Message | None]:
    """Decode a record; its value is None when it is a tombstone.

    `types` returns the classes of a record type, or None.
    Raises UnknownRecordTypeError, and ProtocolError for malformed bytes.
    """
    if key is None or len(key) < _NUMBER.size:
        raise ProtocolError("a coordinator record without a key")
    record_type: int = _NUMBER.unpack_from(key)[0]
    found = types(record_type)
    if found is None:
        raise UnknownRecordTypeError(record_type)
    key_type, value_type = found
    key_message, _ = key_type.decode_from(key, _NUMBER.size, 0)
    if value is None:
        return key_message, None
    if len(value) < _NUMBER.size:
        raise ProtocolError("a coordinator record without a version")
    version: int = _NUMBER.unpack_from(value)[0]
    if not value_type.VERSIONS.has(version):
        raise ProtocolError(f"{value_type.__name__} has no version {version}")
    value_message, _ = value_type.decode_from(value, _NUMBER.size, version)
    return key_message, value_message
