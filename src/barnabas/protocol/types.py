"""Value types of the wire that Python lacks."""

import base64
import binascii
import os
from collections.abc import Callable
from typing import Final, Self


class Uuid(bytes):
    """A Kafka UUID: 16 bytes, written as url-safe base64 without padding."""

    __slots__ = ()

    def __new__(cls, value: bytes) -> Self:
        """Raises ValueError when `value` is not 16 bytes long."""
        if len(value) != 16:
            raise ValueError(f"a UUID has 16 bytes, not {len(value)}")
        return super().__new__(cls, value)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Kafka's text form (`org.apache.kafka.common.Uuid`).

        Raises ValueError for any other text.
        """
        try:
            value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            value = b""
        if len(value) != 16:
            raise ValueError(f"not a UUID: {text!r}")
        return cls(value)

    @classmethod
    def random(cls, random_bytes: Callable[[int], bytes] = os.urandom) -> Self:
        """Return a new UUID of version 4 whose text does not begin with a dash, which would look
        like an option.
        """
        while True:
            value = bytearray(random_bytes(16))
            value[6] = value[6] & 0x0F | 0x40
            value[8] = value[8] & 0x3F | 0x80
            uuid = cls(bytes(value))
            if not str(uuid).startswith("-"):
                return uuid

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self)[:22].decode()

    def __repr__(self) -> str:
        return f"Uuid({self!s})"


ZERO_UUID: Final = Uuid(bytes(16))
