"""Set and remove SCRAM credentials, as Kafka's `ScramControlManager`."""

from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION, SCRAM_SINCE
from barnabas.cluster.metadata.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_BY_CODE,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import RemoveUserScramCredentialRecord

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


def alter_scram_credentials(
    context: Context, request: AlterUserScramCredentialsRequest
) -> ControllerResult[AlterUserScramCredentialsResponse]:
    """Set and remove credentials; each user succeeds or fails separately.

    A user may appear once, even for different mechanisms.
    """
    records: dict[str, Message] = {}
    errors: dict[str, KafkaError] = {}
    for change in (*request.deletions, *request.upsertions):
        user = change.name
        if user in errors:
            continue
        try:
            if records.pop(user, None) is not None:
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            records[user] = _record(context, change)
        except KafkaError as error:
            errors[user] = error
    results = [Result(user=user, error_message=None) for user in records]
    results += [
        Result(user=user, error_code=error.code, error_message=error.message)
        for user, error in errors.items()
    ]
    return ControllerResult(
        list(records.values()), AlterUserScramCredentialsResponse(results=results)
    )


def _record(context: Context, change: Deletion | Upsertion) -> Message:
    """Return the record of a change. Raises KafkaError when the change is invalid."""
    if context.image.features.get(METADATA_VERSION, 0) < SCRAM_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current metadata.version does not support SCRAM",
        )
    if not change.name:
        raise _unacceptable("Username must not be empty")
    mechanism = SCRAM_BY_CODE.get(change.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, Deletion):
        if (change.name, change.mechanism) not in context.image.scram:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < ITERATIONS_MIN:
        raise _unacceptable("Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise _unacceptable("Too many iterations")
    credential = mechanism.credential(
        bytes(change.salt), bytes(change.salted_password), change.iterations
    )
    return credential.record(change.name, change.mechanism)


def _unacceptable(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
