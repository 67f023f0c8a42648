"""Malformed bytes: the connection closes or the error code is Kafka's.

Each class of damage has its test. Where barnabas is stricter than Apache Kafka by choice, the test
has a mark. Another connection must be answered all the time.
"""

import gzip
import random
import struct
import time
from collections.abc import Iterator

import pytest

from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest
from compat_tests import wire

METADATA, API_VERSIONS, PRODUCE = 3, 18, 0
MAX_FRAME = 100 * 1024 * 1024


@pytest.fixture(autouse=True)
def bystander(bootstrap) -> Iterator[None]:
    """Hold another connection that must be answered at once before and after the test."""
    with wire.Connection(bootstrap) as connection:
        connection.call(MetadataRequest(topics=[]), 4)
        yield
        started = time.monotonic()
        connection.call(MetadataRequest(topics=[]), 4)
        assert time.monotonic() - started < 20


def metadata_frame(body: bytes) -> bytes:
    return wire.header(METADATA, 4, 1) + body


CLOSING_BYTES = {
    "negative length": struct.pack(">i", -1) + bytes(20),
    "length above the limit": struct.pack(">i", MAX_FRAME + 1) + bytes(20),
    "largest length": struct.pack(">i", 2**31 - 1) + bytes(20),
    "zero length": struct.pack(">i", 0),
    "http": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "tls hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
}


@pytest.mark.parametrize("data", CLOSING_BYTES.values(), ids=CLOSING_BYTES)
def test_a_stream_that_is_not_kafka_is_closed(bootstrap, data) -> None:
    with wire.Connection(bootstrap) as connection:
        connection.socket.sendall(data)
        assert connection.closes_silently()


CLOSING_FRAMES = {
    "half a header": b"\x00\x03\x00",
    "client id longer than the frame": struct.pack(">hhih", METADATA, 4, 1, 500) + b"short",
    "unknown api key": wire.header(999, 0, 1),
    "negative api key": wire.header(-7, 0, 1),
    "removed api": wire.header(4, 0, 1) + bytes(30),
    "version too new": wire.header(METADATA, 99, 1, header_version=2) + bytes(10),
    "version too old": wire.header(PRODUCE, 0, 1) + bytes(10),
    "negative version": wire.header(METADATA, -1, 1) + bytes(10),
    "body cut short": metadata_frame(struct.pack(">i", 1) + struct.pack(">h", 50) + b"cut"),
    "array longer than the frame": metadata_frame(struct.pack(">i", 2**30) + b"\x00\x01a\x01"),
    "null array where none may be": wire.header(PRODUCE, 8, 1)
    + struct.pack(">hhii", -1, -1, 9, -1),
    "null string": metadata_frame(struct.pack(">ih", 1, -1) + b"\x01"),
    "tag count longer than the frame": wire.header(METADATA, 9, 1) + b"\xff\xff\xff\xff\x0f",
    "overlong varint": wire.header(METADATA, 9, 1) + b"\xff" * 12,
    "compact string longer than the frame": wire.header(METADATA, 9, 1, header_version=2)
    + b"\x02\xf0\xff\xff\x0fa",
    "no body": wire.header(METADATA, 4, 1),
}


@pytest.mark.parametrize("frame", CLOSING_FRAMES.values(), ids=CLOSING_FRAMES)
def test_malformed_request_closes_its_connection(bootstrap, frame) -> None:
    with wire.Connection(bootstrap) as connection:
        connection.send_frame(frame)
        assert connection.closes_silently()


@pytest.mark.barnabas_only
def test_text_that_is_not_utf8_closes_its_connection(bootstrap) -> None:
    with wire.Connection(bootstrap) as connection:
        connection.send_frame(metadata_frame(struct.pack(">ih", 1, 2) + b"\xff\xfe" + b"\x01"))
        assert connection.closes_silently()


def test_requests_before_a_malformed_one_are_answered(bootstrap) -> None:
    with wire.Connection(bootstrap) as connection:
        first = connection.send(MetadataRequest(topics=[]), 4)
        connection.receive(METADATA, 4, first)
        connection.send_frame(wire.header(999, 0, 2))
        assert connection.closes_silently()


def test_a_truncated_frame_has_no_effect(bootstrap, topics) -> None:
    topic = topics.create("bad")
    with wire.Connection(bootstrap) as connection:
        frame = wire.request_frame(produce_request(topic, plain_batch()), 8, 1)
        connection.socket.sendall(struct.pack(">i", len(frame)) + frame[:-1])
    time.sleep(0.2)
    assert produce(bootstrap, topic, plain_batch()).base_offset == 0


def test_a_frame_that_comes_byte_by_byte_is_answered(bootstrap) -> None:
    with wire.Connection(bootstrap) as connection:
        frame = wire.request_frame(MetadataRequest(topics=[]), 4, 5)
        for byte in struct.pack(">i", len(frame)) + frame:
            connection.socket.sendall(bytes([byte]))
        connection.receive(METADATA, 4, 5)


def test_requests_sent_together_are_answered_in_order(bootstrap) -> None:
    with wire.Connection(bootstrap) as connection:
        sent = [connection.send(MetadataRequest(topics=[]), 4) for _ in range(50)]
        for correlation_id in sent:
            connection.receive(METADATA, 4, correlation_id)


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_too_new_api_versions_request_gets_the_served_versions(bootstrap, version) -> None:
    with wire.Connection(bootstrap) as connection:
        connection.send_frame(wire.header(API_VERSIONS, version, 3, header_version=2) + b"\x01\x01")
        answer = connection.receive(API_VERSIONS, 0, 3)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        served = {entry.api_key: entry.max_version for entry in answer.api_keys}
        assert served[API_VERSIONS] == 4
        connection.call(MetadataRequest(topics=[]), 4)


@pytest.mark.parametrize("name", ["", "white space", "-dash", "semi;colon"])
def test_a_bad_client_name_is_an_invalid_request(bootstrap, name) -> None:
    with wire.Connection(bootstrap) as connection:
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        answer = connection.call(request, 3)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        connection.call(MetadataRequest(topics=[]), 4)


# Apache Kafka allocates the declared size of a frame, so a few hundred of these end its process.
@pytest.mark.barnabas_only
def test_frames_that_are_declared_but_never_sent_cost_nothing(bootstrap, server) -> None:
    before = resident_bytes(server)
    silent = [wire.Connection(bootstrap) for _ in range(300)]
    try:
        for connection in silent:
            connection.socket.sendall(struct.pack(">i", MAX_FRAME))
        wire.call(bootstrap, MetadataRequest(topics=[]), 4)
        assert resident_bytes(server) - before < 50_000_000
    finally:
        for connection in silent:
            connection.socket.close()


def produce_request(topic: str, records: bytes | None, *, acks: int = -1) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=0, records=records)
    data = ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=10_000, topic_data=[data])


def produce(bootstrap: str, topic: str, records: bytes | None, *, version: int = 8, acks: int = -1):
    """Produce to partition 0 and return the partition's response."""
    answer = wire.call(bootstrap, produce_request(topic, records, acks=acks), version)
    return answer.responses[0].partition_responses[0]


def record(value: bytes = b"v", key: bytes | None = b"k", offset: int = 0) -> Record:
    return Record(offset=offset, timestamp=int(time.time() * 1000), key=key, value=value)


def plain_batch(count: int = 1, **options: object) -> bytes:
    return bytes(build_batch([record(offset=i) for i in range(count)], **options))


def patched(batch: bytes, position: int, form: str, value: int, *, checksum: bool = True) -> bytes:
    """Overwrite a header field, and by default update the crc."""
    from crc32c import crc32c

    changed = bytearray(batch)
    struct.pack_into(form, changed, position, value)
    if checksum:
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def code(bootstrap: str, topic: str, records: bytes | None, **options: int) -> ErrorCode:
    return ErrorCode(produce(bootstrap, topic, records, **options).error_code)


def test_a_crc_that_does_not_match_is_a_corrupt_message(bootstrap, topics) -> None:
    topic = topics.create("bad")
    damaged = bytearray(plain_batch())
    damaged[-1] ^= 1
    assert code(bootstrap, topic, bytes(damaged)) == ErrorCode.CORRUPT_MESSAGE


def test_unknown_magic_is_a_corrupt_message(bootstrap, topics) -> None:
    topic = topics.create("bad")
    unknown = patched(plain_batch(), 16, ">b", 9, checksum=False)
    assert code(bootstrap, topic, unknown) == ErrorCode.CORRUPT_MESSAGE


INVALID_BATCHES = {
    "old magic": lambda: patched(plain_batch(), 16, ">b", 1, checksum=False),
    "two batches": lambda: plain_batch() + plain_batch(),
    "base offset": lambda: plain_batch(base_offset=5),
    "fewer records than offsets": lambda: patched(plain_batch(3), 57, ">i", 2),
    "more records than offsets": lambda: patched(plain_batch(3), 57, ">i", 4),
    "last offset delta": lambda: patched(plain_batch(3), 23, ">i", 7),
    "control batch": lambda: patched(plain_batch(), 21, ">h", 0x20),
}


@pytest.mark.parametrize("batch", INVALID_BATCHES.values(), ids=INVALID_BATCHES)
def test_a_batch_against_the_rules_is_an_invalid_record(bootstrap, topics, batch) -> None:
    topic = topics.create("bad")
    found = code(bootstrap, topic, batch())
    assert found == ErrorCode.INVALID_RECORD
    assert produce(bootstrap, topic, plain_batch()).base_offset == 0


def test_a_batch_shorter_than_its_header_is_refused(bootstrap, topics) -> None:
    topic = topics.create("bad")
    refused = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    short = patched(plain_batch(), 8, ">i", 10, checksum=False)
    assert code(bootstrap, topic, short) in refused
    assert code(bootstrap, topic, plain_batch()[:30]) in refused
    assert produce(bootstrap, topic, plain_batch()).base_offset == 0


def test_a_null_key_in_a_compacted_topic_is_an_invalid_record(bootstrap, topics) -> None:
    topic = topics.create("bad", config={"cleanup.policy": "compact"})
    keyless = bytes(build_batch([record(key=None)]))
    assert code(bootstrap, topic, keyless) == ErrorCode.INVALID_RECORD
    assert code(bootstrap, topic, plain_batch()) == ErrorCode.NONE


@pytest.mark.parametrize("version", [3, 6])
def test_zstd_before_version_7_is_an_unsupported_compression(bootstrap, topics, version) -> None:
    topic = topics.create("bad")
    batch = plain_batch(codec=Codec.ZSTD)
    found = code(bootstrap, topic, batch, version=version)
    assert found == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert code(bootstrap, topic, batch, version=7) == ErrorCode.NONE


@pytest.mark.barnabas_only
@pytest.mark.parametrize("attributes", [5, 6, 7])
def test_an_unknown_codec_is_an_unsupported_compression(bootstrap, topics, attributes) -> None:
    topic = topics.create("bad")
    batch = patched(plain_batch(), 21, ">h", attributes)
    assert code(bootstrap, topic, batch) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_batch_above_the_limit_is_too_large(bootstrap, topics) -> None:
    topic = topics.create("bad", config={"max.message.bytes": "1000"})
    batch = bytes(build_batch([record(random.Random(1).randbytes(2000))]))
    assert code(bootstrap, topic, batch) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_unknown_acks_are_invalid(bootstrap, topics, acks) -> None:
    topic = topics.create("bad")
    found = code(bootstrap, topic, plain_batch(), acks=acks)
    assert found == ErrorCode.INVALID_REQUIRED_ACKS


def test_a_timestamp_too_far_ahead_is_invalid(bootstrap, topics) -> None:
    topic = topics.create("bad", config={"message.timestamp.after.max.ms": "60000"})
    ahead = int(time.time() * 1000) + 3_600_000
    batch = build_batch([Record(offset=0, timestamp=ahead, key=b"k", value=b"v")])
    assert code(bootstrap, topic, bytes(batch)) == ErrorCode.INVALID_TIMESTAMP


def test_produce_to_an_unknown_topic_or_partition_is_refused(bootstrap, topics, unique) -> None:
    found = code(bootstrap, unique("missing"), plain_batch())
    assert found == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_error_without_acks_closes_the_connection(bootstrap, topics) -> None:
    topic = topics.create("bad")
    damaged = bytearray(plain_batch())
    damaged[-1] ^= 1
    with wire.Connection(bootstrap) as connection:
        connection.send(produce_request(topic, plain_batch(), acks=0), 8)
        connection.send(produce_request(topic, bytes(damaged), acks=0), 8)
        assert connection.closes_silently()
    assert produce(bootstrap, topic, plain_batch()).base_offset == 1


def test_out_of_order_sequences_are_refused(bootstrap, topics) -> None:
    topic = topics.create("bad")

    def batch(sequence: int, *, epoch: int = 0) -> bytes:
        producer = {"producer_id": 987_654, "producer_epoch": epoch, "base_sequence": sequence}
        return plain_batch(2, **producer)

    offsets = [produce(bootstrap, topic, batch(2 * i)).base_offset for i in range(6)]
    assert offsets == [0, 2, 4, 6, 8, 10]
    repeated = produce(bootstrap, topic, batch(6))
    assert (repeated.error_code, repeated.base_offset) == (ErrorCode.NONE, 6)
    assert code(bootstrap, topic, batch(14)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(bootstrap, topic, batch(0, epoch=3)).base_offset == 12
    assert code(bootstrap, topic, batch(12, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(bootstrap, topic, batch(5, epoch=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(bootstrap, topic, batch(2, epoch=3)).base_offset == 14


def bomb(codec: Codec) -> bytes:
    """Build a batch of one record whose value grows a thousandfold when decompressed."""
    return bytes(build_batch([record(bytes(60_000_000))], codec=codec))


@pytest.mark.barnabas_only
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_decompression_bomb_is_refused_or_never_opened(bootstrap, topics, server, codec) -> None:
    topic = topics.create("bomb", config={"cleanup.policy": "compact"})
    before = resident_bytes(server)
    assert code(bootstrap, topic, bomb(codec)) in (ErrorCode.NONE, ErrorCode.INVALID_RECORD)
    assert resident_bytes(server) - before < 150_000_000


@pytest.mark.barnabas_only
def test_many_empty_gzip_members_cost_no_time(bootstrap, topics) -> None:
    topic = topics.create("members", config={"cleanup.policy": "compact"})
    whole = plain_batch(codec=Codec.GZIP)
    batch = bytearray(whole + gzip.compress(b"") * 40_000)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    produce(bootstrap, topic, patched(bytes(batch), 8, ">i", len(batch) - 12))  # starts the helper
    started = time.monotonic()
    produce(bootstrap, topic, patched(bytes(batch), 8, ">i", len(batch) - 12))
    assert time.monotonic() - started < 20


def resident_bytes(server) -> int:
    """Return the server's resident memory; 0 for a process that the suite did not start."""
    if server is None:
        return 0
    with open(f"/proc/{server.pid}/statm") as statm:
        return int(statm.read().split()[1]) * 4096
