"""Bytes of a connection, whole and in pieces, right and wrong."""

import contextlib
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.core.wire_exchange import WireExchange
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.framing import encode_response, parse_request_header
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse


def response_bytes(number: int, message: object, version: int, header_version: int) -> bytes:
    return b"".join(encode_response(number, header_version, message, version))


@given(st.data())
def test_exchange_of_responses_in_any_pieces_gives_them_in_order(data: st.DataObject) -> None:
    exchange = WireExchange("me", 1 << 20)
    stream = b""
    for name in ("a", "bc", "d" * 300):
        number, _ = exchange.request(FindCoordinatorRequest(key=name), 3)
        stream += response_bytes(number, FindCoordinatorResponse(host=name), 3, 1)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += exchange.receive(stream[start:end])
    assert [answer.number for answer in found] == [0, 1, 2]
    assert [answer.response.host for answer in found] == ["a", "bc", "d" * 300]


def test_exchange_request_carries_client_id_version_and_correlation() -> None:
    exchange = WireExchange("me", 1 << 20)
    exchange.request(MetadataRequest(topics=[]), 12)
    number, data = exchange.request(MetadataRequest(topics=[]), 9)
    header, _ = parse_request_header(data[4:])
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (
        3,
        9,
        number,
        "me",
    )


def test_exchange_refusal_of_api_versions_is_read_in_version_0() -> None:
    exchange = WireExchange(None, 1 << 20)
    number, _ = exchange.request(ApiVersionsRequest(), 4)
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    [answer] = exchange.receive(response_bytes(number, refusal, 0, 0))
    assert answer.response == refusal


@pytest.mark.parametrize(
    "data",
    [
        pack(">i", -1),
        pack(">i", 3) + b"abc",
        pack(">i", 1 << 20),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        response_bytes(7, MetadataResponse(), 9, 1),
        response_bytes(0, MetadataResponse(), 9, 1) + response_bytes(1, MetadataResponse(), 9, 1),
        response_bytes(0, FindCoordinatorResponse(host="x"), 3, 1),
        pack(">ii", 4, 0),
        pack(">iib", 5, 0, -1),
    ],
)
def test_exchange_wrong_bytes_raise_protocol_error(data: bytes) -> None:
    exchange = WireExchange("me", (1 << 20) - 1)
    exchange.request(MetadataRequest(topics=[]), 9)
    with pytest.raises(ProtocolError):
        exchange.receive(data)


@given(st.binary(max_size=200))
def test_exchange_random_frames_raise_only_protocol_error(body: bytes) -> None:
    exchange = WireExchange("me", 1 << 20)
    exchange.request(MetadataRequest(topics=[]), 9)
    with contextlib.suppress(ProtocolError):
        exchange.receive(pack(">ii", len(body) + 4, 0) + body)


@pytest.mark.parametrize(
    ("data", "hint"),
    [(b"\x15\x03\x03\x00\x02\x02\x46", "speaks TLS"), (b"HTTP/1.1 400", "speaks HTTP")],
)
def test_exchange_bytes_of_another_protocol_are_named(data: bytes, hint: str) -> None:
    with pytest.raises(ProtocolError, match=hint):
        WireExchange("me", 100_000_000).receive(data)
