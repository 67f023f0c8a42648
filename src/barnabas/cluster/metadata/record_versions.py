"""Metadata records in the versions of a metadata.version.

A cluster whose metadata.version is not raised yet may return to the older Kafka that it came from,
so only versions that the older Kafka can read are written. The versions are those of
`org.apache.kafka.server.common.MetadataVersion`; fields that a version lacks are left out, as Kafka
does (`ImageWriterOptions`).
"""

import copy
from collections.abc import Iterable
from functools import cache
from typing import Final

from barnabas.protocol.fields import Field
from barnabas.protocol.messages_base import Message, default_value, is_default
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    DelegationTokenRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UserScramCredentialRecord,
    encode_metadata_record,
)

# Levels of metadata.version.
_IBP_3_4_IV0, _IBP_3_5_IV2, _IBP_3_6_IV2, _IBP_3_7_IV0, _IBP_3_7_IV2 = 8, 11, 14, 15, 17
_IBP_4_0_IV1, _IBP_4_3_IV0 = 23, 30

# Record -> (level since when, version), the highest first.
_VERSIONS: Final[dict[type[Message], tuple[tuple[int, int], ...]]] = {
    RegisterBrokerRecord: ((_IBP_4_3_IV0, 4), (_IBP_3_7_IV2, 3), (_IBP_3_4_IV0, 2), (0, 1)),
    BrokerRegistrationChangeRecord: ((_IBP_4_3_IV0, 3), (_IBP_3_7_IV2, 2), (0, 1)),
    PartitionRecord: ((_IBP_4_0_IV1, 2), (_IBP_3_7_IV2, 1), (0, 0)),
    PartitionChangeRecord: ((_IBP_4_0_IV1, 2), (_IBP_3_7_IV2, 1), (0, 0)),
    RegisterControllerRecord: ((_IBP_3_7_IV0, 0),),
    UserScramCredentialRecord: ((_IBP_3_5_IV2, 0),),
    DelegationTokenRecord: ((_IBP_3_6_IV2, 0),),
}


def records_at(records: Iterable[Message], metadata_version: int) -> list[Message]:
    """Return the records without what the level lacks: fields, or whole records."""
    stated: list[Message] = []
    for record in records:
        version = _version(record, metadata_version)
        if version is not None:
            stated.append(_without_later_fields(record, version))
    return stated


def encode_at(record: Message, metadata_version: int) -> bytes:
    """Encode a record that `records_at` returned for the level."""
    return encode_metadata_record(record, _version(record, metadata_version))


def _version(record: Message, metadata_version: int) -> int | None:
    versions = _VERSIONS.get(type(record))
    if versions is None:
        return record.VERSIONS.high
    return next((version for since, version in versions if metadata_version >= since), None)


@cache
def _later_fields(record_type: type[Message], version: int) -> list[tuple[str, Field]]:
    fields = record_type.FIELDS.items()
    return [(name, field) for name, field in fields if not field.versions.has(version)]


def _without_later_fields(record: Message, version: int) -> Message:
    later = [
        (name, field)
        for name, field in _later_fields(type(record), version)
        if not is_default(record, field, getattr(record, name))
    ]
    if not later:
        return record
    stated = copy.copy(record)
    for name, field in later:
        setattr(stated, name, default_value(type(record), field))
    return stated
