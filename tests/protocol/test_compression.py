"""Compression: round trips, data of other libraries, and bounded memory for hostile data."""

import gzip
import struct
import subprocess
import sys
import time
from contextlib import suppress

import cramjam
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.batches.compression import Codec, CompressionError, compress, decompress

PACKING = [codec for codec in Codec if codec is not Codec.NONE]
MIXED = b"".join(b"%d,a line of a log that repeats itself;" % i for i in range(5000)) + bytes(
    (i * i >> 3) & 0xFF for i in range(100_000)
)


def lz4_frame(
    blocks: list[bytes],
    *,
    flags: int = 0x60,
    block_descriptor: int = 0x40,
    content_size: int | None = None,
    checksums: bool = False,
) -> bytes:
    descriptor = bytes((flags, block_descriptor))
    if content_size is not None:
        descriptor += struct.pack("<Q", content_size)
    frame = b"\x04\x22\x4d\x18" + descriptor
    frame += bytes(((xxhash.xxh32_intdigest(descriptor) >> 8) & 0xFF,))
    for block in blocks:
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        frame += struct.pack("<I", len(packed)) + packed
        if checksums:
            frame += struct.pack("<I", xxhash.xxh32_intdigest(packed))
    return frame + bytes(4)


@given(data=st.binary(max_size=3000), repeat=st.integers(1, 60), codec=st.sampled_from(PACKING))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_compress_then_decompress_returns_the_same_bytes(
    data: bytes, repeat: int, codec: Codec
) -> None:
    data *= repeat
    packed = compress(codec, data)
    assert bytes(decompress(codec, packed)) == data
    assert bytes(decompress(codec, memoryview(bytearray(packed)))) == data


@pytest.mark.parametrize("codec", PACKING)
def test_compress_of_several_blocks_decompresses_to_the_same_bytes(codec: Codec) -> None:
    assert bytes(decompress(codec, compress(codec, MIXED))) == MIXED


@pytest.mark.parametrize(
    ("codec", "level"), [(Codec.GZIP, 9), (Codec.LZ4, 12), (Codec.ZSTD, 19), (Codec.ZSTD, -5)]
)
def test_compress_at_every_level_decompresses_to_the_same_bytes(codec: Codec, level: int) -> None:
    assert bytes(decompress(codec, compress(codec, MIXED, level))) == MIXED


@pytest.mark.parametrize("data", [MIXED, b"", b"x", bytes(range(256)) * 256])
@pytest.mark.parametrize("level", range(1, 18))
def test_compress_lz4_at_every_level_is_readable_by_other_libraries(
    level: int, data: bytes
) -> None:
    packed = compress(Codec.LZ4, data, level)
    assert packed[4] == 0x60, "independent blocks without checksums, for Java"
    assert bytes(decompress(Codec.LZ4, packed)) == data
    assert bytes(cramjam.lz4.decompress(packed)) == data


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, 1, 19)]
)
def test_compress_at_a_higher_level_is_smaller(codec: Codec, low: int, high: int) -> None:
    assert len(compress(codec, MIXED, high)) < len(compress(codec, MIXED, low))


def test_codec_none_returns_the_bytes_unchanged() -> None:
    assert compress(Codec.NONE, b"abc") == b"abc"
    assert decompress(Codec.NONE, b"abc") == b"abc"


def test_decompress_snappy_reads_raw_blocks_of_librdkafka() -> None:
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(MIXED)))) == MIXED


def test_decompress_snappy_reads_concatenated_xerial_streams() -> None:
    twice = compress(Codec.SNAPPY, b"one") + compress(Codec.SNAPPY, b"two")
    assert bytes(decompress(Codec.SNAPPY, twice)) == b"onetwo"


def test_compress_snappy_writes_xerial_framing() -> None:
    assert compress(Codec.SNAPPY, b"abc").startswith(
        b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    )


def test_decompress_gzip_reads_concatenated_members() -> None:
    assert bytes(decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"))) == b"onetwo"


def test_decompress_lz4_reads_content_size_and_block_checksums() -> None:
    frame = lz4_frame([b"one" * 50, b"two" * 50], flags=0x78, content_size=300, checksums=True)
    assert bytes(decompress(Codec.LZ4, frame)) == b"one" * 50 + b"two" * 50


def test_compress_lz4_writes_independent_blocks_and_a_valid_header_checksum() -> None:
    frame = compress(Codec.LZ4, b"abc")
    assert frame[4] & 0x20
    assert frame[6] == (xxhash.xxh32_intdigest(frame[4:6]) >> 8) & 0xFF


@pytest.mark.parametrize("codec", PACKING)
def test_decompress_of_truncated_data_raises(codec: Codec) -> None:
    packed = compress(codec, MIXED)
    for cut in (0, 1, 5, 17, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CompressionError):
            decompress(codec, packed[:cut])


@given(data=st.binary(max_size=200), codec=st.sampled_from(PACKING))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_decompress_of_any_bytes_returns_or_raises_compression_error(
    data: bytes, codec: Codec
) -> None:
    with suppress(CompressionError):
        assert len(decompress(codec, data, 100_000)) <= 100_000


@given(at=st.integers(0, 10_000), value=st.integers(0, 255), codec=st.sampled_from(PACKING))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_decompress_with_a_changed_byte_returns_or_raises_compression_error(
    at: int, value: int, codec: Codec
) -> None:
    packed = bytearray(compress(codec, MIXED[:4000]))
    packed[at % len(packed)] = value
    with suppress(CompressionError):
        assert len(decompress(codec, packed, 1_000_000)) <= 1_000_000


@pytest.mark.parametrize("codec", PACKING)
def test_decompress_stops_at_the_limit(codec: Codec) -> None:
    packed = compress(codec, bytes(3_000_000))
    assert len(decompress(codec, packed, 3_000_000)) == 3_000_000
    for bound in (2_999_999, 65_536, 1000, 1, 0):
        with pytest.raises(CompressionError):
            decompress(codec, packed, bound)


def test_decompress_snappy_with_a_huge_declared_size_allocates_nothing() -> None:
    declared = b"\xff\xff\xff\xff\x07" + bytes(cramjam.snappy.compress_raw(b"abc"))[1:]
    with pytest.raises(CompressionError, match="declares"):
        decompress(Codec.SNAPPY, declared, 1 << 40)
    with pytest.raises(CompressionError, match="more than"):
        decompress(Codec.SNAPPY, declared)


def test_decompress_snappy_with_a_block_longer_than_the_data_raises() -> None:
    framed = compress(Codec.SNAPPY, b"abc")
    for size in (1 << 30, -1):
        with pytest.raises(CompressionError, match="has only 5 left"):
            decompress(Codec.SNAPPY, framed[:16] + struct.pack(">i", size) + framed[20:])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ({"flags": 0x40}, "depend"),
        ({"flags": 0x20}, "version"),
        ({"flags": 0x61}, "version"),
        ({"block_descriptor": 0x30}, "descriptor"),
        ({"block_descriptor": 0xC0}, "descriptor"),
        ({"block_descriptor": 0x41}, "descriptor"),
    ],
)
def test_decompress_lz4_with_a_header_that_kafka_refuses_raises(
    damage: dict[str, int], reason: str
) -> None:
    with pytest.raises(CompressionError, match=reason):
        decompress(Codec.LZ4, lz4_frame([b"abc"], **damage))


def test_decompress_lz4_with_a_wrong_header_checksum_raises() -> None:
    frame = bytearray(lz4_frame([b"abc"]))
    frame[6] ^= 1
    with pytest.raises(CompressionError, match="checksum"):
        decompress(Codec.LZ4, frame)


def test_decompress_lz4_with_a_wrong_block_checksum_raises() -> None:
    frame = bytearray(lz4_frame([b"abc" * 9], flags=0x70, checksums=True))
    frame[-5] ^= 1
    with pytest.raises(CompressionError, match="checksum"):
        decompress(Codec.LZ4, frame)


def test_decompress_lz4_with_a_block_above_the_maximum_size_raises() -> None:
    with pytest.raises(CompressionError):
        decompress(Codec.LZ4, lz4_frame([bytes(65_537)]))


def test_decompress_of_many_empty_gzip_members_takes_linear_time() -> None:
    member = gzip.compress(b"")

    def seconds(count: int) -> float:
        data = member * count
        started = time.process_time()
        decompress(Codec.GZIP, data)
        return time.process_time() - started

    seconds(1000)
    # 40 times the members take 40 times as long, 600 times in quadratic time.
    assert seconds(80_000) < 200 * max(seconds(2000), 0.001)


def test_compression_library_is_imported_on_first_use() -> None:
    program = (
        "import sys; import barnabas.protocol.batches.record_decoding as batch;"
        "from barnabas.protocol.batches.compression import Codec, compress;"
        "early = 'cramjam' in sys.modules;"
        "compress(Codec.ZSTD, b'abc');"
        "print(early, 'cramjam' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"False", b"True"]


@pytest.mark.parametrize("data", [b"\0\0\0ba\1\0aab", b"a\0\0b\0ab\0aa", b"\0\0\0abba\0\1b"])
def test_decompress_lz4_block_whose_first_bytes_look_like_a_size_is_complete(data: bytes) -> None:
    assert decompress(Codec.LZ4, lz4_frame([data])) == data
