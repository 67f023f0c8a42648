"""Set and remove quotas of clients, as Kafka's `ClientQuotaControlManager`."""

from typing import Final, Literal

from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    ENTITY_TYPES,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
    address_of,
    entity_of,
    quota_record,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from barnabas.protocol.messages_base import Message

Entry = AlterClientQuotasRequest.EntryData

_Kind = Literal["LONG", "INT", "DOUBLE"]
_OF_CLIENTS: Final[dict[str, _Kind]] = {
    PRODUCER_BYTE_RATE: "LONG",
    CONSUMER_BYTE_RATE: "LONG",
    REQUEST_PERCENTAGE: "DOUBLE",
    CONTROLLER_MUTATION_RATE: "DOUBLE",
}
_OF_ADDRESSES: Final[dict[str, _Kind]] = {CONNECTION_CREATION_RATE: "INT"}

_TOO_LARGE: Final = {
    "LONG": (float((1 << 63) - 1), "a LONG"),
    "INT": (float((1 << 31) - 1), "an INT"),
}
_FRACTION_MAX: Final = 1e-6


def alter_client_quotas(
    context: Context, request: AlterClientQuotasRequest
) -> ControllerResult[AlterClientQuotasResponse]:
    """Set and remove quotas; all changes of one entity succeed or fail together."""
    records: list[Message] = []
    outcomes: dict[QuotaEntity, KafkaError | None] = {}
    for entry in request.entries:
        entity = entity_of(entry.entity)
        try:
            changes = _changes_of(entry)
            if entity in outcomes or changes is None:
                raise _invalid(f"Ignoring duplicate entity {_text(entity)}")
            records += _records(context, entity, changes)
        except KafkaError as error:
            outcomes[entity] = error
        else:
            outcomes[entity] = None
    if request.validate_only:
        records = []
    entries = [_outcome(entity, error) for entity, error in outcomes.items()]
    return ControllerResult(records, AlterClientQuotasResponse(entries=entries))


def _changes_of(entry: Entry) -> dict[str, float | None] | None:
    """Return the values of keys, None to remove them; None when a key is there twice."""
    changes = {change.key: None if change.remove else change.value for change in entry.ops}
    return changes if len(changes) == len(entry.ops) else None


def _records(
    context: Context, entity: QuotaEntity, changes: dict[str, float | None]
) -> list[Message]:
    """Return the records of what changes. Raises KafkaError when anything is invalid."""
    kinds = _kinds(entity)
    current = context.image.client_quotas
    records: list[Message] = []
    for key, value in changes.items():
        if value is not None:
            _check(kinds, key, value)
        if current.get((entity, key)) != value:
            records.append(quota_record(entity, key, value))
    return records


def _kinds(entity: QuotaEntity) -> dict[str, _Kind]:
    """Return the keys that an entity may have. Raises KafkaError for an invalid entity."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    kinds = {kind for kind, _ in entity}
    if IP not in kinds:
        return _OF_CLIENTS
    if kinds & {USER, CLIENT_ID}:
        raise _invalid(
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"
        )
    host = dict(entity)[IP]
    if host is not None and address_of(host) is None:  # Kafka looks up names of hosts, too
        raise _invalid(f"{host} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _check(kinds: dict[str, _Kind], key: str, value: float) -> None:
    kind = kinds.get(key)
    if kind is None:
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if kind != "DOUBLE":
        most, name = _TOO_LARGE[kind]
        if value > most:
            raise _invalid(f"Proposed value for {key} is too large for {name}.")
        if value - int(value) > _FRACTION_MAX:
            raise _invalid(f"{key} cannot be a fractional value.")


def _text(entity: QuotaEntity) -> str:
    """Return an entity as Kafka's messages write it."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _outcome(entity: QuotaEntity, error: KafkaError | None) -> AlterClientQuotasResponse.EntryData:
    answer = AlterClientQuotasResponse
    return answer.EntryData(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=[answer.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
