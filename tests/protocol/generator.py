"""Random messages of any declared type and version, and damage to their bytes.

Everything is drawn from one `random.Random`, so the same code serves hypothesis (which hands in a
random source that it can shrink), the comparison with Kafka's own classes, and the fuzzer.
"""

from random import Random
from typing import Any

from barnabas.protocol.codec.layout import Layout, WireField, layout_of
from barnabas.protocol.fields import Kind
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid

BITS = {
    Kind.INT8: (7, True),
    Kind.INT16: (15, True),
    Kind.UINT16: (16, False),
    Kind.INT32: (31, True),
    Kind.UINT32: (32, False),
    Kind.INT64: (63, True),
}
TEXTS = ("", "a", "topic-1", "ünïcode ✓", "😀" * 3, "\x00", "x" * 126, "y" * 127, "z" * 300)
FIRST_UNKNOWN_TAG = 50
EXTREMES = (
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    bytes(4),
    b"\xff" * 10,
    b"\x80" * 5,
    b"\xff\xff\xff\xff\x0f",
    b"\x01",
)


def random_message(
    chance: Random, message: type[Message], version: int, *, unknown: bool = False
) -> Any:
    """Return a message that fits the version; with undeclared tagged fields if `unknown`."""
    return _Generator(chance, unknown).struct(layout_of(message, version), 0)


class _Generator:
    def __init__(self, chance: Random, unknown: bool) -> None:
        self.chance = chance
        self.unknown = unknown

    def struct(self, layout: Layout, depth: int) -> Struct:
        made = layout.type()
        for field in layout.fields:
            setattr(made, field.name, self.field(field, depth))
        for field in layout.tagged:
            if self.chance.randrange(2):
                setattr(made, field.name, self.field(field, depth))
        if self.unknown and layout.flexible and not self.chance.randrange(3):
            for _ in range(self.chance.randint(1, 3)):
                tag = FIRST_UNKNOWN_TAG + self.chance.randrange(500)
                made.unknown_tagged_fields[tag] = self.blob()
        return made

    def field(self, field: WireField, depth: int) -> Any:
        if field.nullable and not self.chance.randrange(4):
            return None
        if field.kind is Kind.STRUCT:
            assert field.struct is not None
            return self.struct(field.struct, depth + 1)
        if field.kind is not Kind.ARRAY:
            return self.value(field.kind)
        count = self.chance.randrange(max(2, 4 - depth))
        if field.struct is not None:
            return [self.struct(field.struct, depth + 1) for _ in range(count)]
        assert field.field.element is not None
        if not self.chance.randrange(20):
            count = 130
        return [self.value(field.field.element) for _ in range(count)]

    def value(self, kind: Kind) -> Any:
        if kind in BITS:
            return self.number(*BITS[kind])
        if kind is Kind.BOOLEAN:
            return bool(self.chance.randrange(2))
        if kind is Kind.UUID:
            return Uuid(self.chance.randbytes(16))
        if kind is Kind.FLOAT64:
            return self.chance.choice((0.0, -0.0, 1.5, -1e300, 5e-324, 0.1))
        if kind is Kind.STRING:
            return self.chance.choice(TEXTS)
        return self.blob()

    def number(self, bits: int, signed: bool) -> int:
        low, high = (-(1 << bits) if signed else 0), (1 << bits) - 1
        match self.chance.randrange(4):
            case 0:
                return self.chance.choice((low, high, 0))
            case 1:
                return self.chance.randint(low, high)
            case _:
                return self.chance.randint(0, min(high, 200))

    def blob(self) -> bytes:
        return self.chance.randbytes(self.chance.choice((0, 1, 5, 126, 127, 128, 300)))


def damaged(chance: Random, data: bytes) -> bytes:
    """Return the bytes with one to four damages."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        if not out:
            return chance.randbytes(chance.randrange(8))
        at = chance.randrange(len(out))
        match chance.randrange(6):
            case 0:
                out[at] = chance.randrange(256)
            case 1:
                out[at] ^= 1 << chance.randrange(8)
            case 2:
                del out[at:]
            case 3:
                out[at:at] = out[at : at + chance.randrange(1, 50)]
            case 4:
                extreme = chance.choice(EXTREMES)
                out[at : at + len(extreme)] = extreme
            case _:
                out[at:at] = chance.randbytes(chance.randrange(1, 12))
    return bytes(out)
