"""Envelope v0: a client's request that a broker forwards to the active controller.

The embedded request is answered as if its client had sent it to the controller listener. The
Envelope has its own error when the request cannot be read, or when this node is not the
active controller; then the broker finds the controller and sends the Envelope again.
"""

from barnabas.protocol.apis import FORWARDABLE
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.server.api.context import AnyContext
from barnabas.server.api.embedded_requests import EmbeddedPeer, answer
from barnabas.server.api.envelopes import sender_of
from barnabas.server.api.handler_services import EnvelopeContext


async def envelope(ctx: EnvelopeContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Answer the embedded request; its errors are in the embedded response."""
    dispatcher = ctx.services.dispatcher()
    try:
        embedded = _embedded(ctx, request, sender_of(request, ctx.connection))
        return EnvelopeResponse(response_data=await answer(dispatcher, embedded))
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)


def _embedded(ctx: EnvelopeContext, request: EnvelopeRequest, sender: EmbeddedPeer) -> AnyContext:
    """Decode the embedded request. Raises KafkaError."""
    try:
        embedded = ctx.services.dispatcher().decode(sender, bytearray(request.request_data))
    except ProtocolError as error:
        # Not INVALID_REQUEST: the broker closes its client's connection on this code.
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
    if embedded.api_key not in FORWARDABLE:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"API {embedded.route.name} is not enabled or is not eligible for forwarding",
        )
    return embedded
