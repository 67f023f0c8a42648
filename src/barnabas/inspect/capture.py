"""Connections in captured traffic: pcap and pcapng files, IPv4 and IPv6, TCP.

Segments are ordered by their sequence numbers, and repeated ones dropped. A connection ends at
bytes that the capture lacks. Formats: the pcap and pcapng Internet-Drafts of the IETF's opsawg,
libpcap's link-layer header types, RFC 791, 8200 and 9293.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final, NamedTuple

from barnabas.inspect.conversation import Conversation, Frame

_PCAP_MAGIC: Final = {
    b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
    b"\xa1\xb2\x3c\x4d": (">", 1e-9),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
}
_PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_PCAPNG_ORDER: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_TCP: Final = 6
_FIN, _SYN, _ACK = 0x01, 0x02, 0x10
_SEQUENCE_COUNT: Final = 1 << 32
_HALF: Final = _SEQUENCE_COUNT // 2
_HELD_MAX: Final = 10_000
# IPv6 headers that may precede TCP's: hop-by-hop, routing, destination options.
_IPV6_EXTENSIONS: Final = frozenset((0, 43, 60))
_IP_TYPES: Final = frozenset((b"\x08\x00", b"\x86\xdd"))
_VLAN_TYPES: Final = frozenset((b"\x81\x00", b"\x88\xa8"))


class CaptureError(Exception):
    """A file that is not a readable capture; the text says why."""


class Packet(NamedTuple):
    """A captured packet: seconds since 1970, link-layer type, bytes."""

    time: float
    link: int
    data: bytes


class Segment(NamedTuple):
    """A TCP segment."""

    time: float
    source: tuple[str, int]
    target: tuple[str, int]
    sequence: int
    flags: int
    payload: bytes


class CapturedFrame(NamedTuple):
    """A frame of a capture, or the reason why decoding a connection ended."""

    time: float
    connection: str
    frame: Frame | None
    problem: str = ""


def is_capture(start: bytes) -> bool:
    """True when the first bytes of a file are those of a capture."""
    return start[:4] in _PCAP_MAGIC or start[:4] == _PCAPNG_MAGIC


def captured_frames(data: bytes, port: int | None = None) -> Iterator[CapturedFrame]:
    """Yield the frames of a capture, in the order of their last bytes.

    `port` is the server's port; without it, the client is the side that opened the connection, or
    the side with the higher port.
    """
    connections: dict[frozenset[tuple[str, int]], _Connection] = {}
    for segment in segments(data):
        if port is not None and port not in (segment.source[1], segment.target[1]):
            continue
        ends = frozenset((segment.source, segment.target))
        opened = bool(segment.flags & _SYN) and not segment.flags & _ACK
        connection = connections.get(ends)
        if connection is None or opened:
            client = _client(segment, port)
            server = segment.target if client == segment.source else segment.source
            connection = connections[ends] = _Connection(client, server)
        yield from connection.take(segment)


def _client(segment: Segment, port: int | None) -> tuple[str, int]:
    if segment.flags & _SYN:
        return segment.target if segment.flags & _ACK else segment.source
    if port is not None:
        return segment.source if segment.target[1] == port else segment.target
    return max(segment.source, segment.target, key=lambda end: end[1])


class _Connection:
    """Both directions of one connection."""

    def __init__(self, client: tuple[str, int], server: tuple[str, int]) -> None:
        self.client = client
        self.name = f"{_address(client)} - {_address(server)}"
        self.conversation = Conversation()
        self.flows = {True: _Flow(), False: _Flow()}

    def take(self, segment: Segment) -> Iterator[CapturedFrame]:
        """Insert a segment; yield the frames that it completes."""
        if self.conversation.lost:
            return
        from_client = segment.source == self.client
        flow = self.flows[from_client]
        data = flow.take(segment)
        for frame in self.conversation.receive(data, from_client=from_client):
            yield CapturedFrame(segment.time, self.name, frame)
        if len(flow.held) > _HELD_MAX:
            self.conversation.lost = "the capture lacks some of its bytes"
        if self.conversation.lost:
            yield CapturedFrame(segment.time, self.name, None, self.conversation.lost)


class _Flow:
    """One direction of a connection: takes segments, returns bytes in order."""

    def __init__(self) -> None:
        self.next: int | None = None
        self.held: dict[int, bytes] = {}

    def take(self, segment: Segment) -> bytes:
        """Return the next bytes once they are present."""
        sequence, payload = segment.sequence, segment.payload
        if segment.flags & _SYN:
            self.next = (sequence + 1) % _SEQUENCE_COUNT
            return b""
        if not payload:
            return b""
        if self.next is None:
            self.next = sequence
        self._hold(sequence, payload)
        out: list[bytes] = []
        while self.held:
            payload = self.held.pop(self.next, b"") or self._overlapping(self.next)
            if not payload:
                break
            out.append(payload)
            self.next = (self.next + len(payload)) % _SEQUENCE_COUNT
        return b"".join(out)

    def _overlapping(self, position: int) -> bytes:
        """Remove held segments before the position; return the bytes that extend past it."""
        for sequence in [s for s in self.held if (position - s) % _SEQUENCE_COUNT < _HALF]:
            self._hold(sequence, self.held.pop(sequence))
        return self.held.pop(position, b"")

    def _hold(self, sequence: int, payload: bytes) -> None:
        """Hold bytes at or after the next position."""
        if self.next is None:
            return
        behind = (sequence - self.next) % _SEQUENCE_COUNT
        if behind >= _HALF:  # a retransmission, perhaps with more bytes
            known = _SEQUENCE_COUNT - behind
            sequence, payload = self.next, payload[known:]
        if len(payload) > len(self.held.get(sequence, b"")):
            self.held[sequence] = payload


def _address(end: tuple[str, int]) -> str:
    host, port = end
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def segments(data: bytes) -> Iterator[Segment]:
    """Yield the TCP segments of a capture; skip other packets and truncated ones."""
    for packet in packets(data):
        ip = _ip_packet(packet)
        if ip:
            segment = _tcp_segment(packet.time, ip)
            if segment is not None:
                yield segment


def packets(data: bytes) -> Iterator[Packet]:
    """Yield the packets of a pcap or pcapng file.

    Raises CaptureError.
    """
    try:
        if data[:4] == _PCAPNG_MAGIC:
            yield from _pcapng(data)
        elif data[:4] in _PCAP_MAGIC:
            yield from _pcap(data)
        else:
            raise CaptureError("it is neither pcap nor pcapng")
    except struct.error as error:
        raise CaptureError(f"the capture is damaged: {error}") from None


def _pcap(data: bytes) -> Iterator[Packet]:
    order, unit = _PCAP_MAGIC[data[:4]]
    link: int = struct.unpack_from(f"{order}I", data, 20)[0] & 0x0FFF_FFFF
    head = struct.Struct(f"{order}IIII")
    pos = 24
    while pos + 16 <= len(data):
        seconds, fraction, size, _ = head.unpack_from(data, pos)
        yield Packet(seconds + fraction * unit, link, data[pos + 16 : pos + 16 + size])
        pos += 16 + size


def _pcapng(data: bytes) -> Iterator[Packet]:
    order = "<"
    links: list[tuple[int, float]] = []
    pos = 0
    while pos + 12 <= len(data):
        if data[pos : pos + 4] == _PCAPNG_MAGIC:
            order = _PCAPNG_ORDER.get(data[pos + 8 : pos + 12], "")
            if not order:
                raise CaptureError("the capture has a section of an unknown byte order")
            links = []
        kind, size = struct.unpack_from(f"{order}II", data, pos)
        if size < 12 or size % 4:
            raise CaptureError(f"the capture has a block of {size} bytes")
        body = data[pos + 8 : pos + size - 4]
        if kind == 1:
            links.append(_interface(body, order))
        elif kind == 6:
            packet = _enhanced_packet(body, order, links)
            if packet is not None:
                yield packet
        elif kind == 3 and links:
            yield Packet(0.0, links[0][0], body[4:])
        pos += size


def _interface(body: bytes, order: str) -> tuple[int, float]:
    """Return the link type and the time unit, in seconds, of an interface description."""
    link: int = struct.unpack_from(f"{order}H", body)[0]
    unit, pos = 1e-6, 8
    while pos + 4 <= len(body):
        code, size = struct.unpack_from(f"{order}HH", body, pos)
        if code == 0:
            break
        if code == 9 and size == 1:
            value = body[pos + 4]
            unit = 2.0 ** -(value & 0x7F) if value & 0x80 else 10.0**-value
        pos += 4 + (size + 3) // 4 * 4
    return link, unit


def _enhanced_packet(body: bytes, order: str, links: list[tuple[int, float]]) -> Packet | None:
    interface, high, low, size = struct.unpack_from(f"{order}IIII", body)
    index: int = interface
    if index >= len(links):
        return None
    link, unit = links[index]
    return Packet((high << 32 | low) * unit, link, body[20 : 20 + size])


def _ip_packet(packet: Packet) -> bytes:
    """Return the IP packet in a link-layer frame; empty bytes for another protocol."""
    data = packet.data
    match packet.link:
        case 1:  # Ethernet, with or without VLAN tags
            pos = 12
            while data[pos : pos + 2] in _VLAN_TYPES:
                pos += 4
            return data[pos + 2 :] if data[pos : pos + 2] in _IP_TYPES else b""
        case 113:  # Linux cooked capture
            return data[16:] if data[14:16] in _IP_TYPES else b""
        case 276:  # Linux cooked capture, version 2
            return data[20:] if data[:2] in _IP_TYPES else b""
        case 0 | 108:  # BSD and macOS loopback
            return data[4:]
        case 12 | 14 | 101 | 228 | 229:  # raw IP
            return data
        case _:
            return b""


def _tcp_segment(time: float, ip: bytes) -> Segment | None:
    version = ip[0] >> 4
    if version == 4 and len(ip) >= 20:
        size = int.from_bytes(ip[2:4]) or len(ip)
        fragment = int.from_bytes(ip[6:8]) & 0x3FFF
        protocol, start, hosts = ip[9], (ip[0] & 0x0F) * 4, (ip[12:16], ip[16:20])
        if fragment:
            return None
    elif version == 6 and len(ip) >= 40:
        size = (int.from_bytes(ip[4:6]) or len(ip) - 40) + 40
        protocol, start, hosts = ip[6], 40, (ip[8:24], ip[24:40])
        while protocol in _IPV6_EXTENSIONS and len(ip) >= start + 8:
            protocol, start = ip[start], start + (ip[start + 1] + 1) * 8
    else:
        return None
    tcp = ip[start:size]
    if protocol != _TCP or len(tcp) < 20 or len(ip) < size:
        return None
    source, target, sequence = struct.unpack_from(">HHI", tcp)
    return Segment(
        time,
        (str(ip_address(hosts[0])), source),
        (str(ip_address(hosts[1])), target),
        sequence,
        tcp[13],
        tcp[(tcp[12] >> 4) * 4 :],
    )
