"""Hand-made captures: a TCP conversation as pcap or pcapng."""

import struct
from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple

SYN, ACK = 0x02, 0x10


class Sent(NamedTuple):
    """A segment: its sender, the position of its payload in that side's stream, and the payload."""

    from_client: bool
    at: int
    payload: bytes
    flags: int = ACK


CLIENT, SERVER = ("10.0.0.1", 50000), ("10.0.0.2", 9092)
# Sequence numbers near their maximum, so that every capture has a wrap-around.
FIRST = 0xFFFF_FFF0
TIME = 1_700_000_000


def opening() -> list[Sent]:
    return [Sent(True, -1, b"", SYN), Sent(False, -1, b"", SYN | ACK)]


def tcp(sent: Sent, client: tuple[str, int], server: tuple[str, int]) -> bytes:
    source, target = (client, server) if sent.from_client else (server, client)
    sequence = (FIRST + 1 + sent.at) % (1 << 32)
    head = struct.pack(">HHIIBBHHH", source[1], target[1], sequence, 0, 5 << 4, sent.flags, 0, 0, 0)
    segment = head + sent.payload
    a, b = ip_address(source[0]), ip_address(target[0])
    if a.version == 6:
        return struct.pack(">IHBB", 6 << 28, len(segment), 6, 64) + a.packed + b.packed + segment
    fields = (0x45, 0, 20 + len(segment), 0, 0, 64, 6, 0)
    return struct.pack(">BBHHHBBH", *fields) + a.packed + b.packed + segment


def linked(link: int, packet: bytes) -> bytes:
    kind = b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00"
    match link:
        case 1:
            return bytes(12) + b"\x81\x00\x00\x05" + kind + packet
        case 113:
            return bytes(14) + kind + packet
        case 276:
            return kind + bytes(18) + packet
        case 0:
            return b"\2\0\0\0" + packet
    return packet


def pcap(
    segments: Iterable[Sent],
    *,
    link: int = 1,
    order: str = "<",
    client: tuple[str, int] = CLIENT,
    server: tuple[str, int] = SERVER,
) -> bytes:
    out = struct.pack(f"{order}IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    for number, sent in enumerate(segments):
        data = linked(link, tcp(sent, client, server))
        out += struct.pack(f"{order}IIII", TIME + number, 500_000, len(data), len(data)) + data
    return out


def pcapng(segments: Iterable[Sent], *, order: str = "<") -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = len(body) + 12
        return struct.pack(f"{order}II", kind, size) + body + struct.pack(f"{order}I", size)

    section = struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1)
    option = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)  # nanoseconds
    out = block(0x0A0D0D0A, section) + block(1, struct.pack(f"{order}HHI", 1, 0, 0) + option)
    for number, sent in enumerate(segments):
        data = linked(1, tcp(sent, CLIENT, SERVER))
        time = (TIME + number) * 10**9 + 500_000_000
        head = struct.pack(f"{order}IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data))
        out += block(6, head + data)
    return out
