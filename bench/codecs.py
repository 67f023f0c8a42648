"""`python -m bench.codecs`: µs to decode and to encode, compared with other projects' codecs.

Each row is a message at one version with typical contents; every codec gets the same bytes and must
return them. kafka-python and aiokafka are the clients' own codecs; construct is construct's
`.compile()` of a plain form without checks. A dash: that codec lacks the version.
"""

import argparse
import io
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import construct as c

from barnabas.protocol.apis import api_by_name
from barnabas.protocol.codec.layout import Layout, WireField, layout_of
from barnabas.protocol.fields import Kind
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import aiokafka.protocol.commit
    import aiokafka.protocol.fetch
    import aiokafka.protocol.group
    import aiokafka.protocol.metadata
    import aiokafka.protocol.produce
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer

FIRST_USE = """
import time
from barnabas.protocol.apis import API
import barnabas.protocol.framing, barnabas.protocol.codec
began = time.perf_counter()
api = API[{key}]
request, response = api.request_type, api.response_type
layout = [request.decode_from, response().encode({version})]
try:
    request.decode(b"", {version})
except Exception:
    pass
print(time.perf_counter() - began)
"""


class Codec(NamedTuple):
    """One project's codec of one message: bytes to a value, and back."""

    name: str
    decode: Callable[[], Any]
    encode: Callable[[Any], Callable[[], Any]]


class Case(NamedTuple):
    """A message to measure, and its version."""

    message: Message
    version: int
    note: str = ""


def cases() -> list[Case]:
    """Return the hot messages, in Kafka's newest version and in one that all codecs have."""
    small, fetch = produce(b"x" * 170), fetch_request()
    metadata = metadata_response(1000)
    heartbeat = api_by_name("ConsumerGroupHeartbeat").request_type(
        group_id="readers",
        member_id="c6d54b3a-8dbb-4d1c-9a38-9ba0dd7d32c0",
        member_epoch=3,
        instance_id="i-1",
        rack_id="r",
        rebalance_timeout_ms=300000,
        subscribed_topic_names=["events"],
        subscribed_topic_regex="",
        server_assignor="uniform",
        topic_partitions=[],
    )
    return [
        Case(small, 13, "1 partition, 170 B"),
        Case(small, 12, "1 partition, 170 B"),
        Case(small, 8, "1 partition, 170 B"),
        Case(fetch, 12, "3 partitions"),
        Case(fetch, 11, "3 partitions"),
        Case(fetch_response(), 12, "3 partitions"),
        Case(fetch_response(), 11, "3 partitions"),
        Case(metadata, 12, "1,000 partitions"),
        Case(metadata, 5, "1,000 partitions"),
        Case(offset_commit("i-1"), 9, "10 partitions"),
        Case(offset_commit(None), 3, "10 partitions"),
        Case(join_group("because"), 9),
        Case(join_group(None), 5),
        Case(heartbeat, 1),
    ]


def produce(records: bytes) -> Message:
    kind = api_by_name("Produce").request_type
    topic = kind.TopicProduceData(  # type: ignore[attr-defined]
        name="events",
        topic_id=Uuid(b"0123456789abcdef"),
        partition_data=[kind.PartitionProduceData(index=0, records=records)],  # type: ignore[attr-defined]
    )
    return kind(transactional_id="t", acks=-1, timeout_ms=30000, topic_data=[topic])


def fetch_request() -> Message:
    kind = api_by_name("Fetch").request_type
    partitions = [
        kind.FetchPartition(partition=n, fetch_offset=1000 * n, partition_max_bytes=1 << 20)
        for n in range(3)
    ]
    topic = kind.FetchTopic(topic="events", partitions=partitions)
    return kind(max_wait_ms=500, min_bytes=1, topics=[topic], rack_id="r")


def fetch_response() -> Message:
    kind = api_by_name("Fetch").response_type
    partitions = [
        kind.PartitionData(
            partition_index=n,
            high_watermark=1 << 40,
            last_stable_offset=1 << 40,
            log_start_offset=0,
            aborted_transactions=[],
            records=b"x" * 170,
        )
        for n in range(3)
    ]
    return kind(responses=[kind.FetchableTopicResponse(topic="events", partitions=partitions)])


def metadata_response(count: int) -> Message:
    kind = api_by_name("Metadata").response_type
    partitions = [
        kind.MetadataResponsePartition(
            partition_index=n, leader_id=n % 3, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
        )
        for n in range(count)
    ]
    brokers = [
        kind.MetadataResponseBroker(node_id=n, host=f"broker-{n}.example", port=9092, rack="r")
        for n in range(3)
    ]
    topic = kind.MetadataResponseTopic(name="events", partitions=partitions)
    return kind(brokers=brokers, cluster_id="MkU3OEVBNTcwNTJENDM2Qg", topics=[topic])


def offset_commit(instance: str | None) -> Message:
    kind = api_by_name("OffsetCommit").request_type
    partitions = [
        kind.OffsetCommitRequestPartition(
            partition_index=n, committed_offset=1 << 33, committed_metadata=""
        )
        for n in range(10)
    ]
    return kind(
        group_id="readers",
        generation_id_or_member_epoch=7,
        member_id="consumer-1-c6d54b3a",
        group_instance_id=instance,
        topics=[kind.OffsetCommitRequestTopic(name="events", partitions=partitions)],
    )


def join_group(reason: str | None) -> Message:
    kind = api_by_name("JoinGroup").request_type
    protocols = [
        kind.JoinGroupRequestProtocol(name=name, metadata=b"\0\1\0\0\0\1\0\6events" + bytes(8))
        for name in ("range", "roundrobin")
    ]
    return kind(
        group_id="readers",
        session_timeout_ms=45000,
        rebalance_timeout_ms=300000,
        member_id="consumer-1-c6d54b3a",
        group_instance_id="i-1",
        protocol_type="consumer",
        protocols=protocols,
        reason=reason,
    )


def ours(message: Message, version: int, data: bytes) -> Codec:
    kind = type(message)
    return Codec(
        "barnabas",
        lambda: kind.decode(data, version),
        lambda value: lambda: value.encode(version),
    )


def kafka_python(message: Message, version: int, data: bytes) -> Codec | None:
    name = type(message).__name__
    modules = (kafka.protocol.producer, kafka.protocol.consumer, kafka.protocol.metadata)
    kind = next((getattr(module, name) for module in modules if hasattr(module, name)), None)
    if kind is None or version > kind.max_version:
        return None

    def encode(value: Any) -> Callable[[], Any]:
        value._header = None  # a decoded message lacks it, but encoding requires it
        return lambda: value.encode(version=version)

    return Codec("kafka-python", lambda: kind.decode(data, version=version), encode)


def aiokafka_codec(message: Message, version: int, data: bytes) -> Codec | None:
    protocol = aiokafka.protocol
    modules = (
        protocol.produce,
        protocol.fetch,
        protocol.metadata,
        protocol.commit,
        protocol.group,
    )
    name = f"{type(message).__name__}_v{version}"
    kind = next((getattr(module, name) for module in modules if hasattr(module, name)), None)
    if kind is None:
        return None
    return Codec("aiokafka", lambda: kind.decode(io.BytesIO(data)), lambda value: value.encode)


def construct_codec(message: Message, version: int, data: bytes) -> Codec | None:
    form = _plain_struct(layout_of(type(message), version)).compile()
    return Codec("construct", lambda: form.parse(data), lambda value: lambda: form.build(value))


_NUMBERS = {
    Kind.INT8: c.Int8sb,
    Kind.BOOLEAN: c.Flag,
    Kind.INT16: c.Int16sb,
    Kind.INT32: c.Int32sb,
    Kind.INT64: c.Int64sb,
    Kind.UUID: c.Bytes(16),
}


def _plain_struct(layout: Layout) -> Any:
    fields = [field.name / _plain_field(field) for field in layout.fields]
    return c.Struct(*fields, *(["_tagged" / c.Const(b"\0")] if layout.flexible else []))


def _plain_field(field: WireField) -> Any:
    if field.kind is Kind.ARRAY:
        if field.struct is not None:
            element = _plain_struct(field.struct)
        else:
            element = _plain_value(field.field.element, field.compact)
        return c.PrefixedArray(_length(c.Int32ub, field.compact), element)
    return _plain_value(field.kind, field.compact)


def _plain_value(kind: Kind | None, compact: bool) -> Any:
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    if kind is Kind.STRING:
        return c.PascalString(_length(c.Int16ub, compact), "utf8")
    return c.Prefixed(_length(c.Int32ub, compact), c.GreedyBytes)


def _length(number: Any, compact: bool) -> Any:
    return c.ExprAdapter(c.VarInt, c.obj_ - 1, c.obj_ + 1) if compact else number


CODECS = (ours, kafka_python, aiokafka_codec, construct_codec)
NAMES = ("barnabas", "kafka-python", "aiokafka", "construct")


def microseconds(call: Callable[[], Any], seconds: float) -> float:
    """Return the best of five runs, of `seconds` together."""
    began = time.perf_counter()
    call()
    once = max(time.perf_counter() - began, 1e-7)
    number = max(1, int(seconds / 5 / once))
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(number):
            call()
        best = min(best, (time.perf_counter() - began) / number)
    return best * 1e6


def measure(case: Case, seconds: float) -> dict[str, tuple[float, float]]:
    """Return µs of decode and of encode, by codec.

    Raises ValueError when a codec does not return the bytes.
    """
    data = case.message.encode(case.version)
    found: dict[str, tuple[float, float]] = {}
    for make in CODECS:
        codec = make(case.message, case.version, data)
        if codec is None:
            continue
        try:
            value = codec.decode()
            encode = codec.encode(value)
            same = bytes(encode()) == data
        except c.ConstructError:
            continue  # a null, which the plain form does not support
        if not same:
            raise ValueError(f"{codec.name} changes {type(case.message).__name__} v{case.version}")
        found[codec.name] = (microseconds(codec.decode, seconds), microseconds(encode, seconds))
    return found


def first_uses() -> Iterator[tuple[str, float]]:
    """Return the milliseconds until an api's messages are imported, decoded and encoded once.

    The last api is the largest of all.
    """
    for name in (
        "Produce",
        "Fetch",
        "Metadata",
        "OffsetCommit",
        "JoinGroup",
        "StreamsGroupHeartbeat",
    ):
        api = api_by_name(name)
        script = FIRST_USE.format(key=api.key, version=api.max_version)
        times = [
            float(
                subprocess.run(
                    [sys.executable, "-c", script], capture_output=True, check=True
                ).stdout
            )
            for _ in range(5)
        ]
        yield name, min(times) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.codecs", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each figure")
    options = parser.parse_args()
    print("Decode / encode, µs\n")
    print(f"| message | {' | '.join(NAMES)} |\n| --- |{' ---: |' * len(NAMES)}")
    for case in cases():
        found = measure(case, options.seconds)
        cells = [
            f"{found[name][0]:.1f} / {found[name][1]:.1f}" if name in found else "-"
            for name in NAMES
        ]
        note = f" ({case.note})" if case.note else ""
        label = f"{type(case.message).__name__} v{case.version}{note}"
        print(f"| {label} | {' | '.join(cells)} |", flush=True)
    print("\nFirst use of an api (import, compile, decode, encode), ms\n")
    for name, took in first_uses():
        print(f"- {name}: {took:.1f}")


if __name__ == "__main__":
    main()
