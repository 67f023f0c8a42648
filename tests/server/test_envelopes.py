"""Envelope: a client's request and identity on their way to the controller."""

from ipaddress import IPv4Address, IPv6Address
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.framing import encode_request, parse_request_header
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.principal import DefaultPrincipalData
from barnabas.security.principals import Principal
from barnabas.server.api.dispatch import Dispatcher
from barnabas.server.api.envelopes import sender_of, unwrap, wrap
from barnabas.server.api.handlers.envelope.envelope_handler import envelope
from barnabas.server.api.registry import SERVED

ALICE = Principal("User", "alice")
CONNECTION: Any = SimpleNamespace(
    principal=Principal("User", "broker"), client_host="127.0.0.1", listener_name="CONTROLLER"
)
ADDRESSES = st.one_of(
    st.integers(0, 2**32 - 1).map(lambda n: str(IPv4Address(n))),
    st.integers(0, 2**128 - 1).map(lambda n: str(IPv6Address(n))),
)
NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


def context(**changes: Any) -> Any:
    peer = SimpleNamespace(principal=ALICE, client_host="10.0.0.7", listener_name="X")
    base = {"api_key": 19, "version": 7, "client_id": "c", "correlation_id": 5, "connection": peer}
    return SimpleNamespace(**(base | changes))


@given(NAMES, NAMES, st.booleans(), ADDRESSES)
def test_principal_and_address_survive_the_envelope(
    kind: str, name: str, token: bool, host: str
) -> None:
    peer = SimpleNamespace(
        principal=Principal(kind, name, token), client_host=host, listener_name="X"
    )
    sent = wrap(context(connection=peer), CreateTopicsRequest())
    sender = sender_of(EnvelopeRequest.decode(sent.encode(0), 0), CONNECTION)
    assert sender.principal == Principal(kind, name)
    assert sender.principal.token_authenticated == token
    mapped = IPv6Address(host).ipv4_mapped if ":" in host else None
    assert sender.client_host == (host if mapped is None else str(mapped))
    assert sender.listener_name == "CONTROLLER"


def test_envelope_has_the_clients_header_and_kafkas_principal() -> None:
    sent = wrap(context(), CreateTopicsRequest())
    header, _ = parse_request_header(sent.request_data)
    assert header == (19, 7, 5, "c")
    assert sent.client_host_address == bytes([10, 0, 0, 7])
    principal = DefaultPrincipalData(type="User", name="alice").encode(0)
    assert sent.request_principal == b"\0\0" + principal


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER),
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR),  # without a response
    ],
)
def test_error_of_the_envelope_is_not_shown_to_the_client(
    answer: ErrorCode, raised: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        unwrap(context(), EnvelopeResponse(error_code=answer))
    assert caught.value.code is raised


# The controller's end


def answered(request: EnvelopeRequest, *, refusal: ErrorCode | None = None) -> EnvelopeResponse:
    """Return the handler's answer; the embedded request gets an empty response or `refusal`."""

    async def handle(_request: Any, _version: int) -> Any:
        if refusal is not None:
            raise KafkaError(refusal, "no")
        return CreateTopicsResponse()

    services: dict[str, Any] = {line.family: None for line in SERVED}
    services["controller"] = SimpleNamespace(handle=handle)
    dispatcher = Dispatcher("controller", services, slow_request_s=1.0)
    ctx: Any = SimpleNamespace(
        services=SimpleNamespace(dispatcher=lambda: dispatcher), connection=CONNECTION
    )
    return trio.run(envelope, ctx, request)


def with_data(data: bytes, **changes: Any) -> EnvelopeRequest:
    sent = wrap(context(), CreateTopicsRequest())
    sent.request_data = data
    for name, value in changes.items():
        setattr(sent, name, value)
    return sent


GOOD = bytes(wrap(context(), CreateTopicsRequest()).request_data)
HEARTBEAT = b"".join(encode_request(1, None, HeartbeatRequest(), 4))[4:]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (with_data(GOOD), ErrorCode.NONE),
        (with_data(b""), ErrorCode.UNSUPPORTED_VERSION),
        (with_data(GOOD[:9]), ErrorCode.UNSUPPORTED_VERSION),
        (with_data(GOOD[:12]), ErrorCode.UNSUPPORTED_VERSION),
        (with_data(b"\0\x13\0\x63" + GOOD[4:]), ErrorCode.UNSUPPORTED_VERSION),
        (with_data(HEARTBEAT), ErrorCode.UNSUPPORTED_VERSION),
        (with_data(b"\0\x12\0\0\0\0\0\1\xff\xff"), ErrorCode.INVALID_REQUEST),  # ApiVersions
        (with_data(GOOD, client_host_address=b"123"), ErrorCode.INVALID_REQUEST),
        (with_data(GOOD, request_principal=None), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (with_data(GOOD, request_principal=b"\0"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (
            with_data(GOOD, request_principal=b"\0\1\1\1\0\0"),
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ),
        (
            with_data(GOOD, request_principal=b"\0\0\x7f"),
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ),
    ],
)
def test_envelope_that_cannot_be_read_has_kafkas_error(
    request_: EnvelopeRequest, code: ErrorCode
) -> None:
    assert answered(request_).error_code == code


def test_embedded_response_has_the_clients_correlation_id() -> None:
    answer = answered(with_data(GOOD))
    assert answer.response_data is not None
    assert answer.response_data[:4] == b"\0\0\0\5"
    assert isinstance(unwrap(context(), answer), CreateTopicsResponse)


def test_embedded_not_controller_becomes_the_envelopes_error() -> None:
    answer = answered(with_data(GOOD), refusal=ErrorCode.NOT_CONTROLLER)
    assert answer == EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)


def test_embedded_error_stays_in_the_embedded_response() -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    sent = wrap(context(), CreateTopicsRequest(topics=[topic]))
    answer = answered(sent, refusal=ErrorCode.POLICY_VIOLATION)
    assert answer.error_code == 0
    response: Any = unwrap(context(), answer)
    assert [each.error_code for each in response.topics] == [ErrorCode.POLICY_VIOLATION]
