"""The fuzz targets: functions over bytes, each with the one kind of error that it may raise.

A target returns a short text about its outcome; inputs with a new text are kept as starting points.
Any other exception is a finding.
"""

from collections.abc import Callable
from random import Random

from barnabas.inspect.frame_view import decode_request_frame
from barnabas.inspect.rendering import Heading, Style, text_lines
from barnabas.protocol.apis import API
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import CorruptBatch, crc_matches, iter_batches
from barnabas.protocol.batches.compression import Codec, CompressionError, compress, decompress
from barnabas.protocol.batches.record_decoding import Record, read_records, unpack_records
from barnabas.protocol.batches.record_walk import validate_unpacked
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import encode_request, parse_request_header
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.group_records import decode_group_record
from barnabas.protocol.records.metadata_records import (
    decode_metadata_record,
    encode_metadata_record,
)
from tests.protocol.facts import all_messages, versions_of
from tests.protocol.generator import random_message

UNPACKED_MAX = 1 << 20
_NAMES = sorted(all_messages())
_METADATA = [
    m for m in all_messages().values() if m.__module__.endswith("records.metadata_records")
]
_GROUP_KEYS = [
    (name, all_messages()[name.removesuffix("Key") + "Value"])
    for name in _NAMES
    if name.endswith("Key") and "group" in all_messages()[name].__module__
]


def check_message(message: type[Message], version: int, data: bytes) -> str:
    """Decode, then encode the result: decoding that again must give the same bytes."""
    value, end = message.decode_from(data, 0, version)
    if not 0 <= end <= len(data):
        raise AssertionError(f"{message.__name__} v{version} ends at {end} of {len(data)}")
    written = value.encode(version)
    again = message.decode(written, version)
    if again.encode(version) != written:
        raise AssertionError(f"{message.__name__} v{version} is not stable")
    return f"{message.__name__} v{version}"


def request(data: bytes) -> str:
    """Decode a request as the server does: its header, then the body of its version."""
    header, position = parse_request_header(data)
    api = API[header.api_key]
    if not api.min_version <= header.api_version <= api.max_version:
        return "another version"
    return check_message(api.request_type, header.api_version, data[position:])


def message(data: bytes) -> str:
    """Decode any message: two bytes choose its type, one its version."""
    if len(data) < 3:
        return "too short"
    kind = all_messages()[_NAMES[int.from_bytes(data[:2]) % len(_NAMES)]]
    versions = versions_of(kind)
    return check_message(kind, versions[data[2] % len(versions)], data[3:])


def inspector(data: bytes) -> str:
    """Decode a request in the inspector: it never raises, and agrees with the codec."""
    decoded = decode_request_frame(data, has_length=False)
    list(text_lines(decoded, Heading(), Style()))
    try:
        outcome = request(data)
    except ProtocolError as error:
        if not decoded.problem:
            raise AssertionError(f"the inspector reads what the codec refuses: {error}") from None
        return "refused"
    # Bytes behind a request, and wrong tags in a header, are ignored by the server.
    is_ignored = (
        decoded.problem.endswith("bytes follow the message") or "RequestHeader" in decoded.problem
    )
    if decoded.problem and outcome != "another version" and not is_ignored:
        raise AssertionError(f"the codec reads what the inspector refuses: {decoded.problem}")
    return outcome


def metadata_record(data: bytes) -> str:
    return type(decode_metadata_record(data)).__name__


def group_record(data: bytes) -> str:
    """Split key and value; the first two bytes are the key's length."""
    size = int.from_bytes(data[:2])
    key, value = decode_group_record(data[2 : 2 + size], data[2 + size :])
    return f"{type(key).__name__} {type(value).__name__}"


def batch(data: bytes) -> str:
    """Decode record batches: the header, the crc, each record."""
    outcome: list[str] = []
    for position, header in iter_batches(data):
        sound = crc_matches(data, position, header)
        records: list[Record] | None = None
        try:
            records = read_records(data, position, header, UNPACKED_MAX)
        except CorruptBatch as error:
            outcome.append(str(error))
        try:
            unpacked = unpack_records(data, position, header, UNPACKED_MAX)
            faults, _ = validate_unpacked(unpacked, header)
        except CorruptBatch:
            if records is not None:
                raise AssertionError("records that were read do not validate") from None
            continue
        if records is not None and len(records) != header.record_count:
            raise AssertionError("not as many records as announced")
        outcome.append(f"{sound} {header.codec_id} {len(faults)}")
    return "; ".join(outcome)


def decompressor(codec: Codec) -> Callable[[bytes], str]:
    def unpack(data: bytes) -> str:
        size = len(decompress(codec, data, UNPACKED_MAX))
        if size > UNPACKED_MAX:
            raise AssertionError(f"{size} bytes where {UNPACKED_MAX} were allowed")
        return f"unpacked 2**{size.bit_length()}"

    return unpack


REFUSALS: dict[str, tuple[type[Exception], ...]] = {
    "request": (ProtocolError,),
    "message": (ProtocolError,),
    "inspector": (),
    "metadata_record": (ProtocolError,),
    "group_record": (ProtocolError,),
    "batch": (CorruptBatch,),
    "gzip": (CompressionError,),
    "snappy": (CompressionError,),
    "lz4": (CompressionError,),
    "zstd": (CompressionError,),
}
TARGETS: dict[str, Callable[[bytes], str]] = {
    "request": request,
    "message": message,
    "inspector": inspector,
    "metadata_record": metadata_record,
    "group_record": group_record,
    "batch": batch,
    **{codec.name.lower(): decompressor(codec) for codec in Codec if codec},
}


def sample(chance: Random, target: str) -> bytes:
    """Return a valid input of a target."""
    match target:
        case "request" | "inspector":
            api = API[chance.choice(list(API))]
            version = chance.randint(api.min_version, api.max_version)
            value = random_message(chance, api.request_type, version, unknown=True)
            client = chance.choice((None, "", "client", "ü" * 40))
            return b"".join(map(bytes, encode_request(1, client, value, version)))[4:]
        case "message":
            index = chance.randrange(len(_NAMES))
            kind = all_messages()[_NAMES[index]]
            at = chance.randrange(len(versions_of(kind)))
            value = random_message(chance, kind, versions_of(kind)[at], unknown=True)
            head = index.to_bytes(2) + bytes((at,))
            return head + value.encode(versions_of(kind)[at])
        case "metadata_record":
            kind = chance.choice(_METADATA)
            version = chance.choice(versions_of(kind))
            return encode_metadata_record(random_message(chance, kind, version), version)
        case "group_record":
            return _group_record(chance)
        case "batch":
            codec = chance.choice(list(Codec))
            return bytes(build_batch(_records(chance), codec=codec)) * chance.choice((1, 1, 2))
    return _packed(chance, Codec[target.upper()])


def _group_record(chance: Random) -> bytes:
    name, value_type = chance.choice(_GROUP_KEYS)
    key_type = all_messages()[name]
    key = key_type.RECORD_TYPE.to_bytes(2) + random_message(chance, key_type, 0).encode(0)
    version = chance.choice(versions_of(value_type))
    value = version.to_bytes(2) + random_message(chance, value_type, version).encode(version)
    return len(key).to_bytes(2) + key + value


def _records(chance: Random) -> list[Record]:
    count = chance.choice((1, 2, 3, 20))
    headers = (("h", b"v"), ("n", None))
    return [
        Record(
            offset,
            1_700_000_000_000 + chance.randrange(1000),
            chance.choice((None, b"", b"key")),
            chance.choice((None, b"", chance.randbytes(chance.randrange(200)))),
            chance.choice(((), headers)),
        )
        for offset in range(count)
    ]


def _packed(chance: Random, codec: Codec) -> bytes:
    size = chance.choice((0, 1, 50, 1000, 70_000))
    data = chance.choice((bytes(size), chance.randbytes(size), b"abcdefg " * (size // 8)))
    level = 1 if codec is Codec.ZSTD or size > 1000 else None
    return compress(codec, data, None if codec is Codec.SNAPPY else level)
