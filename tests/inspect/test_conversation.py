"""Conversations from bytes and captures, in pieces and orders of all kinds."""

from random import Random

import pytest

from barnabas.inspect.capture import CaptureError, captured_frames, packets
from barnabas.inspect.conversation import Conversation, Frame
from barnabas.protocol.framing import encode_request, encode_response
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.inspect.captures import TIME, Sent, opening, pcap, pcapng

TO_SERVER = [
    b"".join(encode_request(1, "me", ApiVersionsRequest(), 3)),
    b"".join(encode_request(2, "me", MetadataRequest(topics=[]), 12)),
]
TO_CLIENT = [
    b"".join(encode_response(1, 0, ApiVersionsResponse(), 3)),
    b"".join(encode_response(2, 1, MetadataResponse(cluster_id="c"), 12)),
]


def names(frames: list[Frame]) -> list[str]:
    return [frame.decode().name for frame in frames]


EXPECTED = [
    "ApiVersions v3 request",
    "Metadata v12 request",
    "ApiVersions v3 response",
    "Metadata v12 response",
]


def test_conversation_cuts_frames_and_matches_responses_to_requests() -> None:
    for size in (1, 3, 7, 1000):
        conversation = Conversation()
        frames: list[Frame] = []
        for from_client, stream in ((True, b"".join(TO_SERVER)), (False, b"".join(TO_CLIENT))):
            for at in range(0, len(stream), size):
                piece = stream[at : at + size]
                frames += conversation.receive(piece, from_client=from_client)
        assert names(frames) == EXPECTED
        assert all(frame.decode().problem == "" for frame in frames)


def test_conversation_marks_a_response_without_a_request() -> None:
    (frame,) = Conversation().receive(TO_CLIENT[0], from_client=False)
    assert frame.decode().problem == "no request with this correlation id was captured"


@pytest.mark.parametrize(
    ("start", "reason"),
    [(b"\x16\x03\x01\x02\x00\x01", "TLS"), (b"GET / HTTP/1.1\r\n", "not Kafka's protocol")],
)
def test_conversation_of_another_protocol_ends_and_keeps_the_bytes(
    start: bytes, reason: str
) -> None:
    conversation = Conversation()
    assert conversation.receive(start, from_client=True) == []
    assert reason in conversation.lost
    assert conversation.receive(b"more", from_client=True) == []
    assert conversation.take_rest(from_client=True) == start + b"more"


def test_conversation_returns_the_frames_before_its_end() -> None:
    conversation = Conversation()
    data = TO_SERVER[0] + b"\xff\xff\xff\xff rest"
    assert names(conversation.receive(data, from_client=True)) == EXPECTED[:1]
    assert conversation.take_rest(from_client=True) == b"\xff\xff\xff\xff rest"


def test_conversation_hides_raw_sasl_tokens() -> None:
    conversation = Conversation()
    token = b"\0alice\0password"
    handshake = b"".join(encode_request(1, "me", SaslHandshakeRequest(mechanism="PLAIN"), 0))
    to_server = [handshake, len(token).to_bytes(4) + token, TO_SERVER[1]]
    answer = b"".join(encode_response(1, 0, SaslHandshakeResponse(), 0))
    frames = conversation.receive(to_server[0], from_client=True)
    frames += conversation.receive(answer, from_client=False)
    frames += conversation.receive(to_server[1], from_client=True)
    frames += conversation.receive(b"\0\0\0\0", from_client=False)
    frames += conversation.receive(to_server[2], from_client=True)
    assert [frame.is_token for frame in frames] == [False, False, True, True, False]
    assert all(b"password" not in str(frame.decode()).encode() for frame in frames)
    assert frames[-1].decode().name == "Metadata v12 request"


def exchange(chance: Random | None = None) -> list[Sent]:
    """Return both streams in segments of ten bytes; shuffled and repeated with a random source"""
    sent: list[Sent] = []
    for from_client, stream in ((True, b"".join(TO_SERVER)), (False, b"".join(TO_CLIENT))):
        pieces = [Sent(from_client, at, stream[at : at + 10]) for at in range(0, len(stream), 10)]
        if chance is not None:
            overlapping = [Sent(from_client, at, stream[at : at + 25]) for at in (5, 17)]
            pieces += [*overlapping, chance.choice(pieces)]
            chance.shuffle(pieces)
        sent += pieces
    return opening() + sent


def seen(data: bytes, port: int | None = None) -> list[str]:
    found = list(captured_frames(data, port))
    assert all(captured.problem == "" for captured in found)
    return names([captured.frame for captured in found if captured.frame is not None])


@pytest.mark.parametrize("link", [0, 1, 12, 113, 276])
@pytest.mark.parametrize("order", "<>")
def test_captured_frames_of_a_pcap_file(link: int, order: str) -> None:
    assert seen(pcap(exchange(), link=link, order=order)) == EXPECTED


@pytest.mark.parametrize("order", "<>")
def test_captured_frames_of_a_pcapng_file(order: str) -> None:
    data = pcapng(exchange(), order=order)
    assert seen(data) == EXPECTED
    assert next(packets(data)).time == pytest.approx(TIME + 0.5)


def test_captured_frames_of_ipv6() -> None:
    data = pcap(exchange(), client=("fd00::1", 50000), server=("fd00::2", 9092))
    assert seen(data) == EXPECTED
    assert next(captured_frames(data)).connection == "[fd00::1]:50000 - [fd00::2]:9092"


@pytest.mark.parametrize("seed", range(20))
def test_captured_frames_with_reordered_and_repeated_segments_are_complete(seed: int) -> None:
    assert seen(pcap(exchange(Random(seed)))) == EXPECTED


def test_captured_frames_without_a_handshake_uses_ports() -> None:
    assert seen(pcap(exchange()[2:])) == EXPECTED
    swapped = pcap(exchange()[2:], client=("10.0.0.1", 9000), server=("10.0.0.2", 9092))
    assert seen(swapped, port=9092) == EXPECTED
    assert seen(swapped, port=1) == []


def test_captured_frames_of_damaged_files_returns_frames_or_raises_capture_error() -> None:
    for data in (pcap(exchange()), pcapng(exchange())):
        for seed in range(300):
            chance = Random(seed)
            damaged = bytearray(data[: chance.randrange(4, len(data))])
            for _ in range(5):
                damaged[chance.randrange(4, len(damaged))] = chance.randrange(256)
            try:
                for captured in captured_frames(bytes(damaged)):
                    if captured.frame is not None:
                        captured.frame.decode()
            except CaptureError:
                pass
