"""Bytes to frames: whole, torn anywhere, small, large, and with false lengths."""

import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.server.transport.frame_splitter import FrameReader

SIZE_MAX = 100 * 1024 * 1024
SCRATCH = memoryview(bytearray(4096))


class Chunks:
    """A socket that returns bytes in pieces of the given sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data = data
        self.sizes = sizes
        self.most_asked = 0

    def recv_into(self, buffer: memoryview) -> int:
        self.most_asked = max(self.most_asked, len(buffer))
        if not self.data:
            raise BlockingIOError
        size = self.sizes.pop(0) if self.sizes else len(self.data)
        piece = self.data[: min(max(size, 1), len(buffer))]
        buffer[: len(piece)] = piece
        self.data = self.data[len(piece) :]
        return len(piece)


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def read_all(reader: FrameReader, chunks: Chunks) -> list[bytes]:
    frames: list[bytes] = []
    while chunks.data and reader.error is None:
        reader.receive(chunks.recv_into, SCRATCH)
        frames += map(bytes, reader.frames)
        reader.frames = []
    return frames


@settings(max_examples=200, derandomize=True)
@given(
    bodies=st.lists(
        st.one_of(st.binary(min_size=1, max_size=50), st.integers(1, 90_000).map(bytes)),
        max_size=6,
    ),
    sizes=st.lists(st.integers(1, 40_000), max_size=30),
)
def test_frame_reader_torn_frames_come_out_whole(bodies: list[bytes], sizes: list[int]) -> None:
    reader = FrameReader(SIZE_MAX)
    assert read_all(reader, Chunks(framed(*bodies), sizes)) == bodies
    assert not reader.within_frame


def test_frame_reader_single_bytes_come_out_as_whole_frames() -> None:
    bodies = [b"a", b"bc" * 40, b"d"]
    data = framed(*bodies)
    reader = FrameReader(SIZE_MAX)
    assert read_all(reader, Chunks(data, [1] * len(data))) == bodies


@pytest.mark.parametrize("length", [0, -1, -(2**31), SIZE_MAX + 1, 2**31 - 1])
def test_frame_reader_impossible_length_is_an_error_after_earlier_frames(length: int) -> None:
    reader = FrameReader(SIZE_MAX)
    data = framed(b"good") + struct.pack(">i", length) + b"x"
    assert read_all(reader, Chunks(data, [])) == [b"good"]
    assert reader.error is not None


def test_frame_reader_declared_size_allocates_nothing() -> None:
    reader = FrameReader(SIZE_MAX)
    chunks = Chunks(struct.pack(">i", SIZE_MAX) + bytes(10), [14])
    assert read_all(reader, chunks) == []
    chunks.data, chunks.sizes = bytes(5), [5]
    read_all(reader, chunks)
    assert chunks.most_asked <= 256 * 1024


def test_frame_reader_buffer_grows_with_received_bytes() -> None:
    body = bytes(range(256)) * 12_000
    chunks = Chunks(framed(body), [])
    assert read_all(FrameReader(SIZE_MAX), chunks) == [body]
    assert chunks.most_asked <= 1024 * 1024


def test_frame_reader_frames_do_not_share_a_buffer() -> None:
    reader = FrameReader(SIZE_MAX)
    reader.receive(Chunks(framed(b"first", b"second"), []).recv_into, SCRATCH)
    kept = reader.frames
    reader.frames = []
    kept[0][:] = b"FIRST"
    reader.receive(Chunks(framed(b"others"), []).recv_into, SCRATCH)
    assert [bytes(frame) for frame in kept] == [b"FIRST", b"second"]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


def test_frame_reader_end_of_stream_returns_0_and_drops_a_torn_frame(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    reader = FrameReader(SIZE_MAX)
    theirs.sendall(framed(b"whole") + b"\x00\x00\x00\x09torn")
    theirs.close()
    assert reader.receive(ours.recv_into, SCRATCH) > 0
    assert reader.receive(ours.recv_into, SCRATCH) == 0
    assert [bytes(frame) for frame in reader.frames] == [b"whole"]
