"""librdkafka without confluent-kafka's Python objects: whole arrays in, counts out.

The shared library is the one inside the confluent-kafka wheel. Only the functions that the bench
needs are declared.
"""

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from types import TracebackType
from typing import Self

import confluent_kafka

_PRODUCER, _CONSUMER = 0, 1
_COPY = 2
_OFFSET_BEGINNING = -2
_TEXT = 512


class Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = [
        ("err", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    ]


def _load() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    found = [
        *package.parent.glob("confluent_kafka.libs/librdkafka*"),
        *package.rglob("librdkafka*"),
    ]
    library = ctypes.CDLL(str(found[0]) if found else "librdkafka.so.1")
    library.rd_kafka_conf_new.restype = c_void_p
    library.rd_kafka_conf_set.argtypes = [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]
    library.rd_kafka_new.argtypes = [c_int, c_void_p, c_char_p, c_size_t]
    library.rd_kafka_new.restype = c_void_p
    library.rd_kafka_topic_new.argtypes = [c_void_p, c_char_p, c_void_p]
    library.rd_kafka_topic_new.restype = c_void_p
    library.rd_kafka_produce_batch.argtypes = [c_void_p, c_int32, c_int, POINTER(Message), c_int]
    library.rd_kafka_flush.argtypes = [c_void_p, c_int]
    library.rd_kafka_poll.argtypes = [c_void_p, c_int]
    library.rd_kafka_outq_len.argtypes = [c_void_p]
    library.rd_kafka_consume_start.argtypes = [c_void_p, c_int32, c_int64]
    library.rd_kafka_consume_stop.argtypes = [c_void_p, c_int32]
    library.rd_kafka_consume_callback.argtypes = [c_void_p, c_int32, c_int, c_void_p, c_void_p]
    library.rd_kafka_query_watermark_offsets.argtypes = [
        c_void_p,
        c_char_p,
        c_int32,
        POINTER(c_int64),
        POINTER(c_int64),
        c_int,
    ]
    library.rd_kafka_topic_destroy.argtypes = [c_void_p]
    library.rd_kafka_destroy.argtypes = [c_void_p]
    return library


_library = _load()
# A C function without any effect, so that no Python runs for each message.
_ignore = ctypes.cast(ctypes.CDLL(None).labs, c_void_p)


class _Client:
    def __init__(self, kind: int, topic: str, config: Mapping[str, str]) -> None:
        conf = _library.rd_kafka_conf_new()
        error = ctypes.create_string_buffer(_TEXT)
        for name, value in config.items():
            if _library.rd_kafka_conf_set(conf, name.encode(), value.encode(), error, _TEXT):
                raise ValueError(error.value.decode())
        self.handle = _library.rd_kafka_new(kind, conf, error, _TEXT)
        if not self.handle:
            raise RuntimeError(error.value.decode())
        self.name = topic.encode()
        self.topic = _library.rd_kafka_topic_new(self.handle, self.name, None)

    def end_offset(self, partition: int = 0) -> int:
        """Return the partition's high watermark on the server."""
        low, high = c_int64(), c_int64()
        failed = _library.rd_kafka_query_watermark_offsets(
            self.handle, self.name, partition, byref(low), byref(high), 30_000
        )
        if failed:
            raise RuntimeError(f"no watermark offsets: librdkafka error {failed}")
        return high.value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _library.rd_kafka_topic_destroy(self.topic)
        _library.rd_kafka_destroy(self.handle)


class Producer(_Client):
    """Produces arrays of equal messages; no Python runs for each message.

    `client` has the settings of a connection: `bootstrap.servers`, and those of its security.
    """

    def __init__(self, client: Mapping[str, str], topic: str, **config: str) -> None:
        settings = {
            **client,
            "acks": "all",
            "queue.buffering.max.messages": "10000000",
            "queue.buffering.max.kbytes": "2097151",
        }
        settings |= {name.replace("_", "."): value for name, value in config.items()}
        super().__init__(_PRODUCER, topic, settings)

    def send(
        self, array: "ctypes.Array[Message]", count: int | None = None, partition: int = 0
    ) -> None:
        """Queue an array from `messages`, or the first `count` of it."""
        count = len(array) if count is None else min(count, len(array))
        done = _library.rd_kafka_produce_batch(self.topic, partition, _COPY, array, count)
        if done != count:
            raise RuntimeError(f"{count - done} messages were not queued")

    def flush(self, timeout_s: float = 120) -> None:
        """Wait until every message is acknowledged or has failed."""
        if _library.rd_kafka_flush(self.handle, int(timeout_s * 1000)):
            raise TimeoutError("the producer's queue did not drain")


class Consumer(_Client):
    """Counts the messages of one partition."""

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        settings = {**client, "queued.min.messages": "1000000"}
        super().__init__(_CONSUMER, topic, settings)

    def count(self, wanted: int, timeout_s: float = 120) -> int:
        """Read `wanted` messages from the beginning; return their number.

        librdkafka also counts one or two internal events.
        """
        seen = idle = 0
        _library.rd_kafka_consume_start(self.topic, 0, _OFFSET_BEGINNING)
        while seen < wanted and idle < timeout_s * 10:
            count = _library.rd_kafka_consume_callback(self.topic, 0, 100, _ignore, None)
            seen += max(count, 0)
            idle = 0 if count > 0 else idle + 1
        _library.rd_kafka_consume_stop(self.topic, 0)
        return seen


def messages(count: int, size: int) -> tuple["ctypes.Array[Message]", object]:
    """Return an array of messages of `size` bytes, and the owner of their payload."""
    payload = ctypes.create_string_buffer(bytes(32 + (i * 37) % 90 for i in range(size)), size)
    array = (Message * count)()
    address = ctypes.addressof(payload)
    for message in array:
        message.payload = address
        message.len = size
    return array, payload
