"""Hand-written header codecs equal the declared headers; any bytes give a header or an error."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.apis import API, ApiKey
from barnabas.protocol.errors import EncodingError, ProtocolError
from barnabas.protocol.framing import (
    RequestHeader,
    encode_request,
    encode_response,
    parse_request_header,
)
from barnabas.protocol.messages import headers
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.protocol.generator import damaged, random_message

client_ids = st.none() | st.text(max_size=40)
apis = st.sampled_from(list(API.values()))


@given(api=apis, client_id=client_ids, correlation_id=st.integers(-(1 << 31), (1 << 31) - 1))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_encode_request_writes_the_declared_header(
    api: ApiKey, client_id: str | None, correlation_id: int
) -> None:
    for version in (api.min_version, api.max_version):
        header = headers.RequestHeader(
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        data = header.encode(api.request_header_version(version))
        parsed, end = parse_request_header(data)
        assert end == len(data)
        assert parsed == RequestHeader(api.key, version, correlation_id, client_id)


@given(api=apis, seed=st.integers(0, 1 << 32), client_id=client_ids)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_encode_request_reads_back(api: ApiKey, seed: int, client_id: str | None) -> None:
    chance = Random(seed)
    version = chance.randint(api.min_version, api.max_version)
    message = random_message(chance, api.request_type, version)
    frame = b"".join(map(bytes, encode_request(7, client_id, message, version)))
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    header, body = parse_request_header(frame[4:])
    assert header == RequestHeader(api.key, version, 7, client_id)
    assert api.request_type.decode(frame[4 + body :], version) == message


@given(api=apis, seed=st.integers(0, 1 << 32))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_encode_response_writes_the_declared_header(api: ApiKey, seed: int) -> None:
    chance = Random(seed)
    version = chance.randint(api.min_version, api.max_version)
    header_version = api.response_header_version(version)
    message = random_message(chance, api.response_type, version)
    frame = b"".join(map(bytes, encode_response(9, header_version, message, version)))
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    header, body = headers.ResponseHeader.decode_from(frame, 4, header_version)
    assert header.correlation_id == 9
    assert api.response_type.decode(frame[body:], version) == message


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_parse_request_header_of_damaged_bytes_equals_construct(seed: int) -> None:
    chance = Random(seed)
    api = chance.choice(list(API.values()))
    header = headers.RequestHeader(
        request_api_key=api.key, request_api_version=api.max_version, client_id="client"
    )
    data = damaged(chance, header.encode(api.request_header_version(api.max_version)))
    try:
        parsed, end = parse_request_header(data)
    except ProtocolError:
        return
    version = API[parsed.api_key].request_header_version(parsed.api_version)
    try:
        declared, declared_end = headers.RequestHeader.decode_from(data, 0, version)
    except ProtocolError as error:
        # The parser skips tagged fields without comparing their tags, as Kafka does.
        if "occurs twice" not in str(error):
            raise
        return
    assert (parsed.client_id, parsed.correlation_id, end) == (
        declared.client_id,
        declared.correlation_id,
        declared_end,
    )


def test_parse_request_header_of_a_removed_api_raises() -> None:
    with pytest.raises(ProtocolError, match="unknown api key 4"):
        parse_request_header(bytes((0, 4, 0, 0, 0, 0, 0, 1, 255, 255)))


def test_encode_request_with_a_too_long_client_id_raises() -> None:
    with pytest.raises(EncodingError):
        encode_request(1, "x" * 32768, HeartbeatRequest(), 4)


def test_encode_response_to_api_versions_has_header_version_0() -> None:
    assert API[18].response_header_version(4) == 0
    assert b"".join(encode_response(1, 0, HeartbeatResponse(), 0))[:8] == b"\0\0\0\6\0\0\0\1"
