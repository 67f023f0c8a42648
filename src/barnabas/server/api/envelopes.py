"""A client's request in an Envelope (58), which a broker sends to the active controller.

The Envelope has the request as the client sent it, with its header and in its version, and the
client's principal and address. The controller's answer has the embedded response, with its header.
"""

from ipaddress import IPv6Address, ip_address
from struct import Struct
from typing import Final

from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError, error_code
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.messages.principal import DefaultPrincipalData
from barnabas.protocol.messages_base import Message
from barnabas.security.principals import Principal
from barnabas.server.api.context import AnyContext, Peer
from barnabas.server.api.embedded_requests import EmbeddedPeer, decode_response

_FRAME_LENGTH_BYTES: Final = 4
_PRINCIPAL_VERSION: Final = Struct(">h")
_PRINCIPAL_VERSIONS: Final = (0,)


def wrap(context: AnyContext, request: Message) -> EnvelopeRequest:
    """Return the Envelope for a client's request, which may have fewer items than it had at first.

    Raises EncodingError when the request does not fit the client's version.
    """
    parts = encode_request(context.correlation_id, context.client_id, request, context.version)
    client = context.connection
    return EnvelopeRequest(
        request_data=b"".join(parts)[_FRAME_LENGTH_BYTES:],
        request_principal=_encode_principal(client.principal),
        client_host_address=_encode_host(client.client_host),
    )


def unwrap(context: AnyContext, answer: EnvelopeResponse) -> Message:
    """Return the response to the client's request from the controller's answer.

    Raises KafkaError: NOT_CONTROLLER when another node is the active controller,
    UNSUPPORTED_VERSION when the controller does not serve the client's version, and
    UNKNOWN_SERVER_ERROR for any other error of the Envelope.
    """
    code = error_code(answer.error_code)
    if code in (ErrorCode.NOT_CONTROLLER, ErrorCode.UNSUPPORTED_VERSION):
        raise KafkaError(code, f"the controller answered {code.name}")
    if code is not ErrorCode.NONE or answer.response_data is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller refused the envelope: {code.name}"
        )
    return decode_response(context.api_key, context.version, answer.response_data)


def sender_of(envelope: EnvelopeRequest, connection: Peer) -> EmbeddedPeer:
    """Return the client whose request an Envelope carries.

    Raises KafkaError: PRINCIPAL_DESERIALIZATION_FAILURE or INVALID_REQUEST.
    """
    return EmbeddedPeer(
        principal=_decode_principal(envelope.request_principal),
        client_host=_decode_host(envelope.client_host_address),
        listener_name=connection.listener_name,
    )


def _encode_principal(principal: Principal) -> bytes:
    version = _PRINCIPAL_VERSIONS[-1]
    data = DefaultPrincipalData(
        type=principal.type,
        name=principal.name,
        token_authenticated=principal.token_authenticated,
    )
    return _PRINCIPAL_VERSION.pack(version) + data.encode(version)


def _decode_principal(data: bytes | None) -> Principal:
    if data is None or len(data) < _PRINCIPAL_VERSION.size:
        raise _bad_principal()
    (version,) = _PRINCIPAL_VERSION.unpack_from(data)
    if version not in _PRINCIPAL_VERSIONS:
        raise _bad_principal()
    try:
        found = DefaultPrincipalData.decode(data[_PRINCIPAL_VERSION.size :], version)
    except ProtocolError as error:
        raise _bad_principal() from error
    return Principal(found.type, found.name, found.token_authenticated)


def _bad_principal() -> KafkaError:
    return KafkaError(
        ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        "Failed to deserialize client principal from envelope",
    )


def _encode_host(host: str) -> bytes:
    """Return an address as `java.net.InetAddress` has it: 4 bytes where that is possible."""
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed


def _decode_host(data: bytes) -> str:
    try:
        return str(ip_address(data))
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Failed to parse client address from envelope"
        ) from error
