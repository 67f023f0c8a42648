"""Frames as fields: positions, batches, embedded messages, and hidden secrets."""

import json
from random import Random
from typing import Any

import pytest

from barnabas.inspect.batch_view import batch_nodes
from barnabas.inspect.field_tree import Node
from barnabas.inspect.frame_view import (
    DecodedFrame,
    decode_message,
    decode_request_frame,
    decode_response_frame,
    walk,
)
from barnabas.inspect.masking import is_sensitive
from barnabas.inspect.rendering import Heading, Style, as_json, text_lines
from barnabas.protocol.apis import API, api_by_name
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.framing import encode_request, encode_response
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from barnabas.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from barnabas.protocol.messages.describe_configs import DescribeConfigsResponse
from barnabas.protocol.messages.envelope import EnvelopeRequest
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.group_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.protocol.records.metadata_records import (
    ConfigRecord,
    TopicRecord,
    UserScramCredentialRecord,
    encode_metadata_record,
)
from barnabas.protocol.types import Uuid
from tests.protocol.generator import damaged, random_message

CANARY = b"canary-in-a-coal-mine"


def request(message: Message, version: int, client_id: str = "me") -> bytes:
    return b"".join(map(bytes, encode_request(7, client_id, message, version)))


def response(message: Message, version: int) -> bytes:
    api = API[message.API_KEY]
    parts = encode_response(7, api.response_header_version(version), message, version)
    return b"".join(map(bytes, parts))


def produce(records: bytes, topic: str = "events") -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(records=records)
    data = ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    return ProduceRequest(acks=-1, topic_data=[data])


def fetched(records: bytes, **topic: Any) -> FetchResponse:
    partition = FetchResponse.PartitionData(records=records)
    return FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(partitions=[partition], **topic)]
    )


def named(decoded: DecodedFrame | tuple[Node, ...], name: str) -> list[Node]:
    fields = decoded.fields if isinstance(decoded, DecodedFrame) else decoded
    return [node for _, node in walk(fields) if node.name == name]


def everything(decoded: DecodedFrame) -> str:
    """Return everything that the inspector prints of a frame, as text and JSON."""
    style = Style(colours=False, length_max=0)
    return "\n".join(text_lines(decoded, Heading(), style)) + json.dumps(
        as_json(decoded, Heading())
    )


@pytest.mark.parametrize("api", API.values(), ids=lambda api: api.name)
def test_fields_of_every_api_are_nested_and_cover_the_frame(api: Any) -> None:
    chance = Random(api.key)
    for version in range(api.min_version, api.max_version + 1):
        asked = decode_request_frame(
            request(random_message(chance, api.request_type, version), version)
        )
        answer = random_message(chance, api.response_type, version)
        answered = decode_response_frame(response(answer, version), api, version)
        for decoded in (asked, answered):
            assert decoded.problem == ""
            assert (decoded.api, decoded.version, decoded.correlation_id) == (api, version, 7)
            assert_nested(decoded.fields, 0, decoded.size)
            assert json.loads(json.dumps(as_json(decoded, Heading(1.5, "c"))))["fields"]


def assert_nested(nodes: tuple[Node, ...], start: int, end: int) -> None:
    for node in nodes:
        assert start <= node.start <= node.end <= end, node
        if node.children:
            assert_nested(node.children, node.start, node.end)


def test_decode_of_a_damaged_frame_returns_its_valid_fields() -> None:
    for seed in range(400):
        chance = Random(seed)
        api = chance.choice(list(API.values()))
        version = chance.randint(api.min_version, api.max_version)
        frame = damaged(chance, request(random_message(chance, api.request_type, version), version))
        everything(decode_request_frame(frame))
        everything(decode_response_frame(frame, api, version))


def test_text_lines_show_values_with_their_positions() -> None:
    decoded = decode_request_frame(request(produce(b""), 9))
    (topic,) = named(decoded, "name")
    assert (topic.value, topic.start, topic.end) == ("events", 25, 32)
    lines = list(text_lines(decoded, Heading(), Style()))
    assert lines[0] == "> Produce v9 request  correlation 7  client me  41 bytes"
    assert '     25-32         name  "events"  compact string' in lines


def test_error_code_is_shown_with_its_name() -> None:
    answer = FetchResponse(error_code=70)
    decoded = decode_response_frame(response(answer, 12), api_by_name("Fetch"), 12)
    assert named(decoded, "error_code")[0].note == "FETCH_SESSION_ID_NOT_FOUND"


def test_text_lines_escape_control_characters() -> None:
    decoded = decode_request_frame(request(produce(b"", topic="a\x1b[2Jb\n"), 9))
    text = "\n".join(text_lines(decoded, Heading(), Style()))
    assert '"a\\x1b[2Jb\\n"' in text
    assert "\x1b" not in text


def test_api_versions_response_in_the_lowest_version_is_decoded() -> None:
    api = api_by_name("ApiVersions")
    frame = response(api.response_type(error_code=35), 0)
    decoded = decode_response_frame(frame, api, 4)
    assert (decoded.problem, decoded.version) == ("", 0)


# Batches


@pytest.mark.parametrize("codec", Codec)
def test_records_of_a_batch_are_decoded(codec: Codec) -> None:
    records = [Record(0, 5, b"key", b"value", (("h", b"x"),)), Record(1, 6, None, b"\xff")]
    decoded = decode_request_frame(request(produce(bytes(build_batch(records, codec=codec))), 9))
    assert [node.value for node in named(decoded, "key")] == [b"key", None]
    assert [node.value for node in named(decoded, "value")] == [b"value", b"\xff"]
    assert named(decoded, "header h")[0].value == b"x"
    assert_nested(decoded.fields, 0, decoded.size)


def test_record_of_an_uncompressed_batch_has_its_position() -> None:
    batch = bytes(build_batch([Record(0, 5, b"key", b"one"), Record(1, 6, b"key", b"two")]))
    nodes = batch_nodes(batch, 0, len(batch))
    values = named(nodes, "value")
    for node, value in zip(values, (b"one", b"two"), strict=True):
        assert value in batch[node.start : node.end]
    assert values[0].end == values[1].start


def test_truncated_or_damaged_batch_is_marked() -> None:
    batch = bytes(build_batch([Record(0, 5, b"key", b"value")]))
    whole, torn = batch_nodes(batch + batch[:-1], 0, 2 * len(batch) - 1)
    assert (whole.note, torn.note) == ("1 records, offsets 0-0, not compressed", "cut short")
    (broken,) = batch_nodes(batch[:-1] + b"!", 0, len(batch))
    assert broken.note.endswith("WRONG CRC")


def test_records_of_internal_topics_are_decoded() -> None:
    key = encode_coordinator_key(OffsetCommitKey(group="readers", topic="events", partition=1))
    value = encode_coordinator_value(OffsetCommitValue(offset=42, metadata="m"), 3)
    batch = bytes(build_batch([Record(0, 5, key, value), Record(1, 5, key, None)]))
    decoded = decode_response_frame(
        response(fetched(batch, topic="__consumer_offsets"), 12), api_by_name("Fetch"), 12
    )
    assert [node.value for node in named(decoded, "offset")] == [0, 42, 1]
    assert named(decoded, "group")[0].value == "readers"


def test_embedded_consumer_protocol_is_decoded() -> None:
    subscription = b"\0\1" + ConsumerProtocolSubscription(topics=["events"]).encode(1)
    protocols = [
        JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription),
        JoinGroupRequest.JoinGroupRequestProtocol(name="own", metadata=b"\0\1something"),
    ]
    decoded = decode_request_frame(request(JoinGroupRequest(group_id="g", protocols=protocols), 5))
    known, unknown = named(decoded, "metadata")
    assert known.type == "ConsumerProtocolSubscription v1"
    assert unknown.value == b"\0\1something"


# Secrets

SCRAM = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
    name="alice", mechanism=1, iterations=4096, salt=CANARY, salted_password=CANARY
)
UPSERT = AlterUserScramCredentialsRequest(upsertions=[SCRAM])


def altered(name: str) -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name=name, value=CANARY.decode())
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + CANARY), 2),
        (UPSERT, 0),
        (altered("sasl.jaas.config"), 1),
        (altered("listener.name.internal.ssl.keystore.password"), 1),
        (altered("listener.name.internal.ssl.keystore.certificate.chain"), 1),
        (altered("connector.api.secret"), 1),
        (EnvelopeRequest(request_data=request(UPSERT, 0)[4:], client_host_address=b"abcd"), 0),
    ],
)
def test_secret_in_a_request_is_hidden(message: Message, version: int) -> None:
    frame = request(message, version)
    assert_hidden(decode_request_frame(frame), frame)
    assert_hidden(decode_request_frame(frame[:-1]), frame)


def test_secret_in_a_response_is_hidden() -> None:
    synonym = DescribeConfigsResponse.DescribeConfigsSynonym(
        name="ssl.key.password", value=CANARY.decode()
    )
    config = DescribeConfigsResponse.DescribeConfigsResourceResult(
        name="unheard.of", value=CANARY.decode(), is_sensitive=True, synonyms=[synonym]
    )
    result = DescribeConfigsResponse.DescribeConfigsResult(configs=[config])
    for message, version in (
        (DescribeConfigsResponse(results=[result]), 4),
        (CreateDelegationTokenResponse(hmac=CANARY), 3),
    ):
        frame = response(message, version)
        assert_hidden(decode_response_frame(frame, API[message.API_KEY], version), frame)


@pytest.mark.parametrize(
    "record",
    [
        UserScramCredentialRecord(name="alice", salt=CANARY, stored_key=CANARY, server_key=CANARY),
        ConfigRecord(name="ssl.truststore.password", value=CANARY.decode()),
    ],
)
def test_secret_in_a_metadata_record_is_hidden(record: Message) -> None:
    topic = TopicRecord(name="events")
    values = [encode_metadata_record(record), encode_metadata_record(topic)]
    records = [Record(n, 5, None, value) for n, value in enumerate(values)]
    batch = bytes(build_batch(records, codec=Codec.NONE))
    by_name = response(fetched(batch, topic="__cluster_metadata"), 12)
    by_id = response(fetched(batch, topic_id=Uuid(bytes(15) + b"\1")), 13)
    partition = FetchSnapshotResponse.PartitionSnapshot(unaligned_records=batch)
    snapshot = response(
        FetchSnapshotResponse(
            topics=[
                FetchSnapshotResponse.TopicSnapshot(
                    name="__cluster_metadata", partitions=[partition]
                )
            ]
        ),
        0,
    )
    for frame, name, version in (
        (by_name, "Fetch", 12),
        (by_id, "Fetch", 13),
        (snapshot, "FetchSnapshot", 0),
    ):
        decoded = decode_response_frame(frame, api_by_name(name), version)
        assert_hidden(decoded, frame)
        assert '"events"' in everything(decoded)


def assert_hidden(decoded: DecodedFrame, frame: bytes) -> None:
    assert CANARY in frame
    shown = everything(decoded)
    assert CANARY.decode() not in shown
    assert CANARY.hex() not in shown
    assert "hidden" in shown


def test_property_without_a_secret_is_shown() -> None:
    assert is_sensitive("ssl.key.password")
    for name in ("retention.ms", "sasl.enabled.mechanisms", "log.dirs", "ssl.keystore.type"):
        assert not is_sensitive(name)


def test_message_without_a_header_is_decoded() -> None:
    nodes, problem = decode_message(TopicRecord, 0, TopicRecord(name="events").encode(0))
    assert (named(nodes, "name")[0].value, problem) == ("events", "")
    nodes, problem = decode_message(TopicRecord, 7, b"")
    assert problem == "TopicRecord has versions 0-0, not 7"
