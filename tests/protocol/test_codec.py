"""The compiled codec equals the construct form in bytes and errors, and bounds its memory."""

import gc
import time
import tracemalloc
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.protocol import reference
from barnabas.protocol.codec.layout import (
    Layout,
    WireField,
    element_size_min,
    field_size_min,
    layout_of,
)
from barnabas.protocol.errors import EncodingError, ProtocolError
from barnabas.protocol.fields import Kind
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid
from tests.protocol.facts import all_messages, versions_of
from tests.protocol.generator import damaged, random_message

NAMES = sorted(all_messages())
# The maximum size of a decoded message, in bytes for each encoded byte. The worst case, structs of
# only empty arrays in three bytes, takes 62 in CPython 3.11; most messages take less than 40.
MEMORY_RATIO_MAX = 80

quick = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
seeds = st.integers(0, (1 << 32) - 1).map(Random)


def any_version(chance: Random, message: type[Message]) -> int:
    return chance.choice(versions_of(message))


def outcome(decode: Any, message: type[Message], version: int, data: bytes) -> Any:
    """Return the decoded message, or the class of the one permitted error."""
    try:
        return decode(message, version, data)
    except ProtocolError:
        return ProtocolError


def compiled(message: type[Message], version: int, data: bytes) -> Message:
    return message.decode(data, version)


def shown(message: Any) -> Any:
    """Return a text that differs for different messages; NaN is equal to itself in text."""
    return message if message is ProtocolError else repr(message)


@pytest.mark.parametrize("name", NAMES)
@given(chance=seeds)
@quick
def test_compiled_codec_equals_construct_on_random_messages(name: str, chance: Random) -> None:
    message = all_messages()[name]
    version = any_version(chance, message)
    value = random_message(chance, message, version, unknown=True)
    data = value.encode(version)
    assert reference.encode(value, version) == data
    assert message.decode(data, version) == value
    assert reference.decode(message, version, data) == value
    assert message.decode(memoryview(data), version) == value
    assert b"".join(map(bytes, value.encode_parts(version))) == data


@pytest.mark.parametrize("name", NAMES)
@given(chance=seeds)
@quick
def test_compiled_codec_equals_construct_on_damaged_bytes(name: str, chance: Random) -> None:
    message = all_messages()[name]
    version = any_version(chance, message)
    data = damaged(chance, random_message(chance, message, version, unknown=True).encode(version))
    ours = outcome(compiled, message, version, data)
    assert shown(ours) == shown(outcome(reference.decode, message, version, data))
    if ours is not ProtocolError:
        again = ours.encode(version)  # tags in order, none at its default
        assert message.decode(again, version).encode(version) == again


@given(data=st.binary(max_size=60), chance=seeds)
@settings(quick, max_examples=500)
def test_decode_of_any_bytes_returns_a_message_or_raises_protocol_error(
    data: bytes, chance: Random
) -> None:
    message = all_messages()[chance.choice(NAMES)]
    version = any_version(chance, message)
    ours = outcome(compiled, message, version, data)
    assert shown(ours) == shown(outcome(reference.decode, message, version, data))


@pytest.mark.parametrize("name", NAMES)
def test_decode_of_a_truncated_message_raises_protocol_error(name: str) -> None:
    message, chance = all_messages()[name], Random(7)
    for version in versions_of(message):
        data = random_message(chance, message, version).encode(version)
        for cut in range(0, len(data), max(1, len(data) // 20)):
            with pytest.raises(ProtocolError):
                message.decode(data[:cut], version)


@given(chance=seeds)
@settings(quick, max_examples=100)
def test_decode_keeps_unknown_tagged_fields(chance: Random) -> None:
    flexible = [name for name in NAMES if all_messages()[name].FLEXIBLE.high >= 0]
    message = all_messages()[chance.choice(flexible)]
    version = message.VERSIONS.high
    value = random_message(chance, message, version, unknown=True)
    value.unknown_tagged_fields.update({77: b"seven", 1 << 31: b""})
    read = message.decode(value.encode(version), version)
    assert read.unknown_tagged_fields == value.unknown_tagged_fields
    assert read.encode(version) == value.encode(version)


@pytest.mark.parametrize(
    ("message", "version"), [(ProduceRequest, 9), (StreamsGroupHeartbeatRequest, 0)]
)
def test_string_length_limit_is_equal_in_both_codecs(message: type[Message], version: int) -> None:
    field = next(iter(message.FIELDS))
    longest = message(**{field: "x" * 32767})
    data = longest.encode(version)
    assert data == reference.encode(longest, version)
    assert data[:3] == b"\x80\x80\x02"  # 32768, one higher, as in compact lengths
    for decode in (compiled, reference.decode):
        assert decode(message, version, data) == longest
        with pytest.raises(ProtocolError, match="32768"):
            decode(message, version, b"\x81\x80\x02x" + data[3:])


# FetchRequest v12 has cluster_id (tag 0) as its only declared tag.
WITHOUT_TAGS = FetchRequest().encode(12)[:-1]


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        (b"\2\x63\0\x63\0", "twice"),  # the same unknown tag
        (b"\2\0\2\2a\0\2\2b", "twice"),  # the same declared tag
        (b"\1\0\3\2a", "wrong length|does not take|length 3"),  # longer than its field
        (b"\1\0\3\2ab", "wrong length|does not take"),
        (b"\1\0\1\2a", "wrong length|does not take"),  # shorter than its field
        (b"\1\x63\3ab", "length 3|read less"),  # beyond the end
        (b"\2\x63\0", "declares|read less"),  # fewer fields than declared
        (b"\xff\xff\xff\xff\x0f", "declares|read less"),
        (b"\xff\xff\xff\xff\x1f", "more than 32 bits"),
        (b"\x80\x80\x80\x80\x80\0", "more than 32 bits"),
        (b"\0\0", "follow"),
    ],
)
def test_invalid_tagged_section_raises_in_both_codecs(section: bytes, reason: str) -> None:
    FetchRequest.decode(WITHOUT_TAGS + b"\1\0\2\2a", 12)
    for decode in (compiled, reference.decode):
        with pytest.raises(ProtocolError, match=reason):
            decode(FetchRequest, 12, WITHOUT_TAGS + section)


def test_repeated_tag_in_a_struct_without_declared_tags_raises() -> None:
    data = MetadataRequest(topics=[]).encode(12)[:-1]
    for decode in (compiled, reference.decode):
        with pytest.raises(ProtocolError, match="twice"):
            decode(MetadataRequest, 12, data + b"\2\x63\0\x63\0")


# Errors of encoding


def misfits() -> list[tuple[Any, int]]:
    """Return messages that do not fit the version beside them."""
    return [
        (MetadataRequest(topics=None), 0),
        (MetadataRequest(topics=[], allow_auto_topic_creation=False), 3),
        (FetchRequest(forgotten_topics_data=[FetchRequest.ForgottenTopic(topic="t")]), 6),
        (ProduceRequest(acks=1 << 15), 9),
        (ProduceRequest(transactional_id="x" * 32768), 8),
        (ProduceRequest(transactional_id="x" * 32768), 9),
        (FetchRequest(max_wait_ms="soon"), 12),  # type: ignore[arg-type]
        (FetchRequest(max_wait_ms=None), 12),  # type: ignore[arg-type]
        (ApiVersionsRequest(client_software_name="\ud800"), 3),
        (ApiVersionsRequest(client_software_name=None), 3),  # type: ignore[arg-type]
        (
            FetchRequest(topics=[FetchRequest.FetchTopic(topic_id=b"short")]),  # type: ignore[arg-type]
            13,
        ),
    ]


@pytest.mark.parametrize("value", range(len(misfits())))
def test_encode_of_a_value_that_the_version_lacks_raises_in_both_codecs(value: int) -> None:
    message, version = misfits()[value]
    for encode in (message.encode, lambda version: reference.encode(message, version)):
        with pytest.raises(EncodingError):
            encode(version)


def test_encode_of_tagged_fields_in_a_version_without_them_raises() -> None:
    message = MetadataRequest(topics=[])
    message.unknown_tagged_fields[1] = b""
    with pytest.raises(EncodingError):
        message.encode(8)
    with pytest.raises(EncodingError):
        reference.encode(message, 8)


def test_encode_of_an_unknown_field_with_a_declared_tag_raises() -> None:
    message = FetchRequest(cluster_id="c")
    message.unknown_tagged_fields[0] = b""
    with pytest.raises(EncodingError):
        message.encode(12)
    with pytest.raises(EncodingError):
        reference.encode(message, 12)


@pytest.mark.parametrize("name", NAMES)
def test_decode_of_an_unknown_version_raises_value_error(name: str) -> None:
    message = all_messages()[name]
    with pytest.raises(ValueError, match="has versions"):
        message.decode(b"", message.VERSIONS.high + 1)
    with pytest.raises(ValueError, match="has versions"):
        message().encode(message.VERSIONS.high + 1)


# Time and memory


@cache
def greedy(layout: Layout) -> bytes:
    """Return the bytes of a nearly empty struct."""
    parts = [_least(field) for field in layout.fields]
    return b"".join(parts) + (b"\0" if layout.flexible else b"")


def _least(field: WireField) -> bytes:
    if field.kind is Kind.STRUCT:
        assert field.struct is not None
        return (b"\1" if field.nullable else b"") + greedy(field.struct)
    if field.kind in (Kind.STRING, Kind.BYTES, Kind.RECORDS, Kind.ARRAY) and field.compact:
        return b"\1"
    return bytes(field_size_min(field))


def crowded(layout: Layout, size: int) -> bytes | None:
    """Return a message whose first array of structs has as many small elements as fit into `size`
    bytes.
    """
    out = b""
    filled = False
    for field in layout.fields:
        if filled or field.kind is not Kind.ARRAY or field.struct is None:
            out += _least(field)
            continue
        inner = greedy(field.struct)
        count = size // len(inner)
        out += reference.Length(
            reference.NUMBERS[Kind.INT32], compact=field.compact, nullable=False, most=1 << 31
        ).build(count)
        out += inner * count
        filled = True
    return out + (b"\0" if layout.flexible else b"") if filled else None


def memory_of(message: type[Message], version: int, data: bytes) -> int:
    gc.disable()  # a garbage collection for each message would take most of the test's time
    tracemalloc.start()
    try:
        kept = message.decode(data, version)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()
    del kept
    return peak


def test_decoded_message_memory_is_a_small_multiple_of_its_bytes() -> None:
    ratios = {}
    for name, message in all_messages().items():
        version = message.VERSIONS.high
        data = crowded(layout_of(message, version), 4_000)
        if data is not None:
            message.decode(data, version)  # compile the reader first
            ratios[name] = memory_of(message, version, data) / len(data)
    assert len(ratios) > 100
    assert max(ratios.values()) < MEMORY_RATIO_MAX


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\x80\x7f"])
def test_decode_of_an_impossible_count_allocates_nothing(count: bytes) -> None:
    tracemalloc.start()
    for name in NAMES:
        message = all_messages()[name]
        version = message.VERSIONS.high
        layout = layout_of(message, version)
        arrays = [f for f in layout.fields if f.kind is Kind.ARRAY and f.compact]
        if not arrays or layout.fields[0] is not arrays[0] or element_size_min(arrays[0]) < 1:
            continue
        with pytest.raises(ProtocolError):
            message.decode(count + bytes(20), version)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


def test_decode_takes_linear_time() -> None:
    def seconds(size: int) -> float:
        data = crowded(layout_of(MetadataResponse, 12), size)
        assert data is not None
        best = 1.0
        for _ in range(5):
            began = time.process_time()
            MetadataResponse.decode(data, 12)
            best = min(best, time.process_time() - began)
        return best

    assert seconds(400_000) < 40 * seconds(40_000)


def test_decode_returns_records_as_a_view_of_the_frame() -> None:
    frame = bytearray(
        FetchResponse(
            responses=[
                FetchResponse.FetchableTopicResponse(
                    topic_id=Uuid(bytes(16)),
                    partitions=[FetchResponse.PartitionData(records=b"batch")],
                )
            ]
        ).encode(13)
    )
    records = FetchResponse.decode(frame, 13).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert bytes(records) == b"batch"
