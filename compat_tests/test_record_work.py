"""Large batches whose records the broker validates or recompresses: both servers give the same
result.
"""

import struct
import time

import pytest
from crc32c import crc32c

from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import crc_matches, iter_batches
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record, read_records
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.produce import ProduceRequest
from compat_tests import wire

COUNT = 500
NOW_MS = int(time.time() * 1000)
HOUR_MS = 3_600_000
MAX_TIMESTAMP_AT = 35


def batch(
    codec: Codec,
    *,
    key: bytes | None = b"k",
    late: int | None = None,
    keyless: int | None = None,
) -> bytearray:
    """Return many records, a millisecond apart; the one at `late` is two days ahead."""
    made = [
        Record(
            n,
            NOW_MS + n + (48 * HOUR_MS if n == late else 0),
            None if n == keyless else key,
            b"value %d" % n * 5,
        )
        for n in range(COUNT)
    ]
    return build_batch(made, codec=codec)


def says_latest(data: bytearray, timestamp: int) -> bytearray:
    struct.pack_into(">q", data, MAX_TIMESTAMP_AT, timestamp)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


def produce(bootstrap: str, topic: str, data: bytearray):
    partition = ProduceRequest.PartitionProduceData(index=0, records=bytes(data))
    wanted = ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[wanted])
    return wire.call(bootstrap, request, 9).responses[0].partition_responses[0]


def stored(bootstrap: str, topic: str):
    """Return the header and the records of the first batch in the log."""
    partition = FetchRequest.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 22
    )
    wanted = FetchRequest.FetchTopic(topic=topic, partitions=[partition])
    request = FetchRequest(max_wait_ms=1000, min_bytes=1, max_bytes=1 << 22, topics=[wanted])
    data = wire.call(bootstrap, request, 11).responses[0].partitions[0].records
    position, header = next(iter_batches(data))
    assert crc_matches(data, position, header)
    return header, read_records(data, position, header)


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_is_stored_in_the_topics_codec(bootstrap, topics, source, target) -> None:
    topic = topics.create("recoded", config={"compression.type": target})
    data = batch(source)
    assert produce(bootstrap, topic, data).error_code == 0
    header, records = stored(bootstrap, topic)
    assert header.codec.name.lower() == target.replace("uncompressed", "none")
    assert header.max_timestamp == NOW_MS + COUNT - 1
    assert records == read_records(data, 0, next(iter_batches(data))[1])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_each_record_without_a_key_is_reported(bootstrap, topics, codec) -> None:
    topic = topics.create("table", config={"cleanup.policy": "compact"})
    answer = produce(bootstrap, topic, batch(codec, key=None))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == list(range(COUNT))
    assert produce(bootstrap, topic, batch(codec)).base_offset == 0


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_timestamp_out_of_bounds_is_reported_by_record(bootstrap, topics, codec) -> None:
    topic = topics.create("plain")
    answer = produce(bootstrap, topic, batch(codec, late=300))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == [300]
    sound = says_latest(batch(codec), NOW_MS + 48 * HOUR_MS)
    assert produce(bootstrap, topic, sound).error_code == 0, "only its header is wrong"
    assert stored(bootstrap, topic)[0].max_timestamp == NOW_MS + COUNT - 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_timestamp_out_of_bounds_is_found_despite_a_wrong_header(bootstrap, topics, codec) -> None:
    topic = topics.create("table", config={"cleanup.policy": "compact"})
    data = says_latest(batch(codec, late=300), NOW_MS)
    answer = produce(bootstrap, topic, data)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == [300]


def test_batch_with_one_invalid_timestamp_is_refused(bootstrap, topics) -> None:
    topic = topics.create("table", config={"cleanup.policy": "compact"})
    keyless = says_latest(batch(Codec.GZIP, key=None, late=300), NOW_MS)
    answer = produce(bootstrap, topic, keyless)
    assert answer.error_code == ErrorCode.INVALID_RECORD, "its key comes before its time"
    assert len(answer.record_errors) == COUNT
    mixed = says_latest(batch(Codec.GZIP, late=300, keyless=10), NOW_MS)
    answer = produce(bootstrap, topic, mixed)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == [10, 300]


@pytest.mark.parametrize("config", [{"cleanup.policy": "compact"}, {"compression.type": "lz4"}])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_wrong_largest_timestamp_is_corrected(bootstrap, topics, config, codec) -> None:
    topic = topics.create("lying", config=config)
    assert produce(bootstrap, topic, says_latest(batch(codec), NOW_MS + 1)).error_code == 0
    assert stored(bootstrap, topic)[0].max_timestamp == NOW_MS + COUNT - 1


@pytest.mark.parametrize("codec", list(Codec))
def test_a_time_inside_a_large_batch_is_found(bootstrap, topics, codec) -> None:
    topic = topics.create("times")
    assert produce(bootstrap, topic, batch(codec)).error_code == 0

    def look_up(timestamp: int) -> tuple[int, int, int]:
        partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        wanted = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[wanted])
        told = wire.call(bootstrap, request, 7).topics[0].partitions[0]
        return told.error_code, told.offset, told.timestamp

    assert look_up(NOW_MS + 321) == (0, 321, NOW_MS + 321)
    assert look_up(-3) == (0, COUNT - 1, NOW_MS + COUNT - 1)
    assert look_up(NOW_MS + COUNT) == (0, -1, -1)
