"""DescribeClientQuotas: list the quotas of clients."""

from __future__ import annotations

from barnabas.protocol.fields import array, boolean, float64, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class DescribeClientQuotasRequest(Message, api="DescribeClientQuotas"):
    """A filter by user, client id and address."""

    class ComponentData(Struct):
        entity_type: str = string()
        match_type: int = int8()
        match: str | None = string(nullable=True)

    components: list[DescribeClientQuotasRequest.ComponentData] = array("ComponentData")
    strict: bool = boolean()


class DescribeClientQuotasResponse(Message, api="DescribeClientQuotas"):
    """The matching entities with their quotas."""

    class EntityData(Struct):
        entity_type: str = string()
        entity_name: str | None = string(nullable=True)

    class ValueData(Struct):
        key: str = string()
        value: float = float64()

    class EntryData(Struct):
        entity: list[DescribeClientQuotasResponse.EntityData] = array("EntityData")
        values: list[DescribeClientQuotasResponse.ValueData] = array("ValueData")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    entries: list[DescribeClientQuotasResponse.EntryData] | None = array("EntryData", nullable=True)
