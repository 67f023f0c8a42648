"""Our bytes against Kafka's own classes: every message and version, in both directions.

One JVM serves the whole module; thousands of random messages pass through it. The seed of each
round is in the test's name, so a failure can be repeated.
"""

import json
from collections.abc import Iterator
from random import Random

import pytest

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages_base import Message
from compat_tests.protocol_peer import KafkaRefusedError, ProtocolPeer, as_json
from tests.protocol.facts import all_messages, versions_of
from tests.protocol.generator import damaged, random_message

ROUNDS = range(10)
# Kafka Streams' own message; its class is in a jar that no other test needs.
ELSEWHERE = {"SubscriptionInfoData"}
# Bytes that barnabas refuses and Kafka accepts, by choice: text that is not UTF-8, nulls and counts
# of a negative length other than -1, and tagged sections whose count or size overflows an int.
STRICTER = ("codec can't decode", "has length -", "declares", "tagged field")
# Bytes that barnabas accepts and Kafka refuses: a tag declared for other versions only, kept here
# as unknown; and unordered tags, which Kafka decodes but does not encode again.
LAXER = ("is not valid for version", "Invalid raw tag field list")


@pytest.fixture(scope="module")
def peer() -> Iterator[ProtocolPeer]:
    peer = ProtocolPeer()
    yield peer
    peer.close()


def every_version() -> list[tuple[type[Message], int]]:
    messages = [m for name, m in all_messages().items() if name not in ELSEWHERE]
    return [(message, version) for message in messages for version in versions_of(message)]


def test_kafkas_messages_are_the_declared_ones(peer: ProtocolPeer) -> None:
    ours = {name.removesuffix("Data") for name in set(all_messages()) - ELSEWHERE}
    assert ours == set(peer.names)


@pytest.mark.parametrize("seed", ROUNDS)
def test_kafka_reads_what_we_write(peer: ProtocolPeer, seed: int) -> None:
    chance = Random(seed)
    for message, version in every_version():
        value = random_message(chance, message, version, unknown=True)
        data = value.encode(version)
        read, written = peer.decode(message, version, data)
        expected = json.loads(json.dumps(as_json(value, version, records_as_size=True)))
        assert read == expected, f"{message.__name__} v{version}"
        assert written == data, f"{message.__name__} v{version}"


@pytest.mark.parametrize("seed", ROUNDS)
def test_we_read_what_kafka_writes(peer: ProtocolPeer, seed: int) -> None:
    chance = Random(seed)
    for message, version in every_version():
        value = random_message(chance, message, version)
        data = peer.encode(message, version, as_json(value, version))
        assert message.decode(data, version) == value, f"{message.__name__} v{version}"
        assert value.encode(version) == data, f"{message.__name__} v{version}"


@pytest.mark.parametrize("seed", ROUNDS)
def test_damaged_bytes_are_read_or_refused_as_kafka_does(peer: ProtocolPeer, seed: int) -> None:
    chance = Random(seed)
    for message, version in every_version():
        data = damaged(chance, random_message(chance, message, version).encode(version))
        what = f"{message.__name__} v{version} {data.hex()}"
        try:
            ours = message.decode(data, version)
        except ProtocolError as error:
            if not any(reason in str(error) for reason in STRICTER):
                with pytest.raises(KafkaRefusedError):
                    peer.decode(message, version, data)
            continue
        written, refused = read_by_kafka(peer, message, version, data)
        if refused:
            assert any(reason in refused for reason in LAXER), f"{what}: {refused}"
        else:
            assert ours.encode(version) == written, what


def read_by_kafka(
    peer: ProtocolPeer, message: type[Message], version: int, data: bytes
) -> tuple[bytes, str]:
    """Return the bytes that Kafka encodes after decoding, or why it refused."""
    try:
        return peer.decode(message, version, data)[1], ""
    except KafkaRefusedError as error:
        return b"", str(error)
