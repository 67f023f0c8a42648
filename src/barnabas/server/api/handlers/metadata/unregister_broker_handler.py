"""UnregisterBroker v0: an unknown broker is reported as Apache Kafka does.

Removing the registration of a known broker is refused: this server does not do it yet.
"""

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from barnabas.server.api.handler_services import MetadataContext


def unregister_broker(
    ctx: MetadataContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Return BROKER_ID_NOT_REGISTERED for an unknown broker, otherwise UNSUPPORTED_VERSION."""
    broker_id = request.broker_id
    if broker_id in ctx.services.image().brokers:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message=f"Unregistering broker ID {broker_id} is not supported",
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {broker_id} is not currently registered",
    )
