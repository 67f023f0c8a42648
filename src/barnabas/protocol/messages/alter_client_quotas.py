"""AlterClientQuotas: change the quotas of clients."""

from __future__ import annotations

from barnabas.protocol.fields import array, boolean, float64, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class AlterClientQuotasRequest(Message, api="AlterClientQuotas"):
    """The new quotas of entities made of user, client id or address."""

    class EntityData(Struct):
        entity_type: str = string()
        entity_name: str | None = string(nullable=True)

    class OpData(Struct):
        key: str = string()
        value: float = float64()
        remove: bool = boolean()

    class EntryData(Struct):
        entity: list[AlterClientQuotasRequest.EntityData] = array("EntityData")
        ops: list[AlterClientQuotasRequest.OpData] = array("OpData")

    entries: list[AlterClientQuotasRequest.EntryData] = array("EntryData")
    validate_only: bool = boolean()


class AlterClientQuotasResponse(Message, api="AlterClientQuotas"):
    """The result of each entity: whether it was changed."""

    class EntityData(Struct):
        entity_type: str = string()
        entity_name: str | None = string(nullable=True)

    class EntryData(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable=True)
        entity: list[AlterClientQuotasResponse.EntityData] = array("EntityData")

    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponse.EntryData] = array("EntryData")
