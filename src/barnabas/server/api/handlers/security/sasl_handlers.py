"""SaslHandshake v0-1 and SaslAuthenticate v0-2 on a connection that is authenticated already.

On a listener without SASL every connection is. As Apache Kafka, the server refuses both requests
and keeps the connection, so that a misconfigured client learns at once what is wrong.
"""

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.server.api.context import AnyContext


def sasl_handshake(_context: AnyContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse with ILLEGAL_SASL_STATE and no mechanisms."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def sasl_authenticate(
    _context: AnyContext, _request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Refuse with ILLEGAL_SASL_STATE."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
