"""DescribeClientQuotas v0-1: the quotas of the entities that a filter matches."""

from collections.abc import Iterable
from typing import Final

from barnabas.cluster.metadata.client_quotas import ENTITY_TYPES, IP, QuotaEntity
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from barnabas.server.api.handler_services import SecurityContext

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_NAMES: Final = {_EXACT: "EXACT", _DEFAULT: "DEFAULT", _SPECIFIED: "SPECIFIED"}


def describe_client_quotas(
    ctx: SecurityContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return the quotas that the filter matches, or the error of an invalid filter.

    A filter without components matches everything, a strict one nothing.
    """
    try:
        _validate(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message, entries=None
        )
    return DescribeClientQuotasResponse(error_message="", entries=_entries(ctx, request))


def _entries(
    ctx: SecurityContext, request: DescribeClientQuotasRequest
) -> list[DescribeClientQuotasResponse.EntryData]:
    answer = DescribeClientQuotasResponse
    return [
        answer.EntryData(
            entity=[answer.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[answer.ValueData(key=key, value=value) for key, value in values],
        )
        for entity, values in _by_entity(ctx.services.image()).items()
        if _matches(request, entity)
    ]


def _by_entity(image: MetadataImage) -> dict[QuotaEntity, list[tuple[str, float]]]:
    found: dict[QuotaEntity, list[tuple[str, float]]] = {}
    for (entity, key), value in image.client_quotas.items():
        found.setdefault(entity, []).append((key, value))
    return found


def _matches(request: DescribeClientQuotasRequest, entity: QuotaEntity) -> bool:
    """True when the entity has each type that the filter names, with a name that matches."""
    if request.strict and len(entity) != len(request.components):
        return False
    names = dict(entity)
    return all(
        component.entity_type in names
        and (component.match_type == _SPECIFIED or names[component.entity_type] == component.match)
        for component in request.components
    )


def _validate(components: Iterable[DescribeClientQuotasRequest.ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in seen:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        _validate_match(component)
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )


def _validate_match(component: DescribeClientQuotasRequest.ComponentData) -> None:
    name = _NAMES.get(component.match_type)
    if name is None:
        raise _invalid(f"Unknown match type {component.match_type}")
    if component.match_type == _EXACT:
        if component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif component.match is not None:
        raise _invalid(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
