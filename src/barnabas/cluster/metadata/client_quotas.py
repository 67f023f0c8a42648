"""Client quotas as the metadata holds them: whom each concerns, and its value.

An entity is a user, a client id, both, or an address. A name of None is the default of its type: it
concerns each user, client id or address that no other quota names.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from barnabas.protocol.records.metadata_records import ClientQuotaRecord

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (CLIENT_ID, USER, IP)
"""In the order in which Kafka lists the parts of an entity."""

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""The types and names of an entity, in the order of `ENTITY_TYPES`."""
QuotaKey = tuple[QuotaEntity, str]
"""An entity, and the key of one of its quotas."""


class EntityPart(Protocol):
    """A type and a name, as messages and records have them."""

    entity_type: str
    entity_name: str | None


def entity_of(parts: Iterable[EntityPart]) -> QuotaEntity:
    """Return the entity of a message or record; of a repeated type, the last name counts."""
    names = {part.entity_type: part.entity_name for part in parts}
    return tuple(sorted(names.items(), key=_place))


def address_of(name: str) -> str | None:
    """Return the address that an entity names, as sockets state it; None for a host name."""
    from ipaddress import IPv6Address, ip_address  # with the first quota of an address

    try:
        address = ip_address(name)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address).partition("%")[0]


def _place(part: tuple[str, str | None]) -> tuple[int, str]:
    kind = part[0]
    known = ENTITY_TYPES.index(kind) if kind in ENTITY_TYPES else len(ENTITY_TYPES)
    return known, kind


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """Return the record that sets a quota; with None, that removes it."""
    return ClientQuotaRecord(
        entity=[
            ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name)
            for kind, name in entity
        ],
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )
