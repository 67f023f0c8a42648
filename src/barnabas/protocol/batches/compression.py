"""Compression of record batches, with output and memory bounded by the caller.

cramjam is imported at the first compressed batch, so start-up does not pay for it. A size that the
data declares is compared, never allocated: output goes to a buffer that the system backs with
memory only as it is written.
"""

import mmap
import struct
from collections.abc import Callable
from enum import IntEnum
from types import ModuleType
from typing import Final

Buffer = bytes | bytearray | memoryview

DEFAULT_MAX_BYTES: Final = 128 << 20
"""The default limit, in bytes, of one uncompressed batch."""

_FIRST_TRY_MAX: Final = 8 << 20
_INT32: Final = struct.Struct(">i")
_UINT32_LE: Final = struct.Struct("<I")

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC_INT: Final = _INT32.unpack_from(_XERIAL_MAGIC)[0]
_XERIAL_BLOCK: Final = 32 * 1024  # SnappyOutputStream.DEFAULT_BLOCK_SIZE
_SNAPPY_RATIO_MAX: Final = 32  # a three-byte copy makes 64 bytes: the maximum expansion

_LZ4_MAGIC: Final = 0x184D2204
_LZ4_VERSION_INDEPENDENT: Final = 0x60  # version 01, blocks independent
_LZ4_BLOCK_SIZES: Final = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_LZ4_RAW_BLOCK: Final = 0x80000000
_LZ4_HEADER_BYTES: Final = 7
_LZ4_LEVEL_DEFAULT: Final = 9
_LZ4_HIGH_LEVEL_MIN: Final = 3


class CompressionError(ValueError):
    """Compressed data is damaged, or its uncompressed size exceeds the limit."""


class Codec(IntEnum):
    """The compression types of a batch's attributes (`CompressionType`)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`; `level` applies to gzip (1-9), lz4 (1-17) and zstd (-131072-22)."""
    if codec is Codec.NONE:
        return bytes(data)
    cramjam = _cramjam()
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=6 if level is None else level))
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))
    if codec is Codec.SNAPPY:
        return _snappy_compress(cramjam, memoryview(data))
    return _lz4_compress(cramjam, memoryview(data), level)


def decompress(codec: Codec, data: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> Buffer:
    """Uncompress `data` to at most `max_bytes` bytes.

    Raises `CompressionError` when the data is damaged, truncated or exceeds the limit.
    """
    if codec is Codec.NONE:
        return data
    cramjam = _cramjam()
    if codec is Codec.GZIP:
        return _decompress_stream(cramjam, cramjam.gzip.decompress_into, data, max_bytes)
    if codec is Codec.ZSTD:
        return _decompress_stream(cramjam, cramjam.zstd.decompress_into, data, max_bytes)
    if codec is Codec.SNAPPY:
        return _snappy_decompress(cramjam, memoryview(data), max_bytes)
    return _lz4_decompress(cramjam, memoryview(data), max_bytes)


def _cramjam() -> ModuleType:  # imported here to keep start-up cheap
    import cramjam

    return cramjam


def _decompress_stream(
    cramjam: ModuleType,
    decompress_into: Callable[[Buffer, object], int],
    data: Buffer,
    max_bytes: int,
) -> Buffer:
    """Uncompress into a small buffer first, then into a mapping of the whole limit.

    The system backs both with memory only as it is written, so the first may be generous.
    """
    first = bytearray(min(max_bytes, _FIRST_TRY_MAX, max(4096, 32 * len(data))))
    try:
        size = decompress_into(data, first)
    except cramjam.DecompressionError as error:
        if len(first) == max_bytes:
            raise CompressionError(str(error)) from None
    else:
        return memoryview(first)[:size]
    with mmap.mmap(-1, max_bytes) as mapping:
        try:
            size = decompress_into(data, mapping)
        except cramjam.DecompressionError as error:
            raise CompressionError(str(error)) from None
        return mapping[:size]


def _snappy_compress(cramjam: ModuleType, data: memoryview) -> bytes:
    """Xerial's framing, as Kafka's Java producer writes it."""
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _snappy_decompress(cramjam: ModuleType, data: memoryview, max_bytes: int) -> Buffer:
    """Xerial's framing, or one raw block as librdkafka writes it (`SnappyInputStream`)."""
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _snappy_block(cramjam, data, max_bytes)
    if len(data) < 16:
        raise CompressionError("truncated snappy header")
    if _INT32.unpack_from(data, 12)[0] < 1:
        raise CompressionError("unknown version of snappy framing")
    parts: list[Buffer] = []
    position, end, room = 16, len(data), max_bytes
    while position < end:
        if end - position < 4:
            raise CompressionError("truncated snappy block length")
        size = _INT32.unpack_from(data, position)[0]
        if size == _XERIAL_MAGIC_INT:  # concatenated streams
            position += 16
            continue
        position += 4
        if not 0 <= size <= end - position:
            raise CompressionError(f"snappy block of {size} bytes has only {end - position} left")
        part = _snappy_block(cramjam, data[position : position + size], room)
        room -= len(part)
        parts.append(part)
        position += size
    return b"".join(parts)


def _snappy_block(cramjam: ModuleType, block: memoryview, max_bytes: int) -> Buffer:
    size = _snappy_declared_size(block)
    if size > max_bytes:
        raise CompressionError(f"snappy block uncompresses to {size} bytes, more than {max_bytes}")
    if size > _SNAPPY_RATIO_MAX * len(block):
        raise CompressionError(f"snappy block of {len(block)} bytes declares {size}")
    output = bytearray(size)
    try:
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CompressionError(str(error)) from None
    return output


def _snappy_declared_size(block: memoryview) -> int:
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise CompressionError("snappy length is not a varint")


def _lz4_compress(cramjam: ModuleType, data: memoryview, level: int | None) -> bytes:
    """One frame of independent 64 KiB blocks: Java's reader refuses dependent ones."""
    import xxhash

    block_bytes = _LZ4_BLOCK_SIZES[4]
    descriptor = bytes((_LZ4_VERSION_INDEPENDENT, 4 << 4))
    checksum = (xxhash.xxh32_intdigest(descriptor) >> 8) & 0xFF
    parts = [_UINT32_LE.pack(_LZ4_MAGIC), descriptor, bytes((checksum,))]
    for start in range(0, len(data), block_bytes):
        block = data[start : start + block_bytes]
        packed = _lz4_block(cramjam, block, level)
        if len(packed) < len(block):
            parts += (_UINT32_LE.pack(len(packed)), packed)
        else:
            parts += (_UINT32_LE.pack(len(block) | _LZ4_RAW_BLOCK), bytes(block))
    parts.append(_UINT32_LE.pack(0))
    return b"".join(parts)


def _lz4_block(cramjam: ModuleType, block: memoryview, level: int | None) -> bytes:
    """A raw block; Kafka's default level is the fast compressor (`Lz4BlockOutputStream`)."""
    if level is None or level == _LZ4_LEVEL_DEFAULT:
        return bytes(cramjam.lz4.compress_block(block, store_size=False))
    # cramjam's raw blocks have no level, its frames do: take the single block of a frame.
    frame = bytes(cramjam.lz4.compress(block, level=max(level, _LZ4_HIGH_LEVEL_MIN)))
    start = _LZ4_HEADER_BYTES + 4
    size = _UINT32_LE.unpack_from(frame, _LZ4_HEADER_BYTES)[0] & ~_LZ4_RAW_BLOCK
    return frame[start : start + size]


def _lz4_decompress(cramjam: ModuleType, data: memoryview, max_bytes: int) -> Buffer:
    """One frame, block by block, with the checks of Kafka's `Lz4BlockInputStream`."""
    position, block_max, has_block_checksum = _lz4_header(data)
    parts: list[bytes] = []
    room = max_bytes
    output = bytearray(min(block_max, max(room, 1), 255 * len(data) + 64))
    while True:
        if len(data) - position < 4:
            raise CompressionError("truncated lz4 frame")
        size = _UINT32_LE.unpack_from(data, position)[0]
        position += 4
        if size == 0:
            return b"".join(parts)
        is_raw, size = bool(size & _LZ4_RAW_BLOCK), size & ~_LZ4_RAW_BLOCK
        if size > block_max or size > len(data) - position:
            raise CompressionError(
                f"lz4 block of {size} bytes exceeds the frame or the maximum block size"
            )
        block = data[position : position + size]
        position += size
        if has_block_checksum:
            position = _check_lz4_block(data, position, block)
        if is_raw:
            part = bytes(block)
        else:
            try:
                # Without store_size=False, the first bytes of the block would be read as its size.
                size = cramjam.lz4.decompress_block_into(block, output, output_len=len(output))
            except cramjam.DecompressionError as error:
                raise CompressionError(str(error)) from None
            part = bytes(output[:size])
        room -= len(part)
        if room < 0:
            raise CompressionError(f"lz4 frame uncompresses to more than {max_bytes} bytes")
        parts.append(part)


def _lz4_header(data: memoryview) -> tuple[int, int, bool]:
    """Return the position and maximum size (bytes) of the blocks, and if each has a checksum."""
    import xxhash

    if len(data) < 7 or _UINT32_LE.unpack_from(data)[0] != _LZ4_MAGIC:
        raise CompressionError("not an lz4 frame")
    flags, block_descriptor = data[4], data[5]
    if flags >> 6 != 1 or flags & 0x03:
        raise CompressionError("unknown version of lz4 frame")
    if not flags & 0x20:
        raise CompressionError("lz4 blocks depend on each other, which Kafka does not support")
    block_max = _LZ4_BLOCK_SIZES.get(block_descriptor >> 4)
    if block_max is None or block_descriptor & 0x0F:
        raise CompressionError("lz4 block descriptor has unknown bits")
    end = 14 if flags & 0x08 else 6  # the content size, which is not used
    if len(data) <= end:
        raise CompressionError("truncated lz4 frame header")
    if data[end] != (xxhash.xxh32_intdigest(data[4:end]) >> 8) & 0xFF:
        raise CompressionError("lz4 frame header does not match its checksum")
    return end + 1, block_max, bool(flags & 0x10)


def _check_lz4_block(data: memoryview, position: int, block: memoryview) -> int:
    import xxhash

    if len(data) - position < 4:
        raise CompressionError("truncated lz4 block checksum")
    if _UINT32_LE.unpack_from(data, position)[0] != xxhash.xxh32_intdigest(block):
        raise CompressionError("lz4 block does not match its checksum")
    return position + 4
