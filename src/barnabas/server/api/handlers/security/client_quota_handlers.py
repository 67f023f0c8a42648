"""DescribeClientQuotas v0-1 and AlterClientQuotas v0-1: this cluster has no client quotas.

Filters are validated as Apache Kafka does, and match nothing. A change is refused, as no quota
would be enforced.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from barnabas.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from barnabas.server.api.context import AnyContext

_IP: Final = "ip"
_ENTITY_TYPES: Final = ("user", "client-id", _IP)
_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_NAMES: Final = {_EXACT: "EXACT", _DEFAULT: "DEFAULT", _SPECIFIED: "SPECIFIED"}


def describe_client_quotas(
    _context: AnyContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return no entries, or the error of an invalid filter."""
    try:
        _validate(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message, entries=None
        )
    return DescribeClientQuotasResponse(error_message="", entries=[])


def _validate(components: Iterable[DescribeClientQuotasRequest.ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        _validate_match(component)
        kind = component.entity_type
        if kind in seen:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind not in _ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        seen.add(kind)
    if _IP in seen and len(seen) > 1:
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


def alter_client_quotas(
    _context: AnyContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Refuse each entry."""
    answer = AlterClientQuotasResponse
    return AlterClientQuotasResponse(
        entries=[
            answer.EntryData(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message="Client quotas are not supported",
                entity=[
                    answer.EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )
