"""The last offset of each key, in 24 bytes a key (Kafka's `SkimpyOffsetMap`).

Keys are known by a digest of 128 bits, so two of them are as good as never taken for one. It is
seeded at random: what makes keys meet in one pass does not in the next.
"""

import os
from array import array
from typing import Final

from xxhash import xxh3_128_intdigest

_LOW: Final = (1 << 64) - 1


class OffsetMap:
    """An open-addressing table of at least `slots` places, of which `keys_max` may be taken.

    Places are probed by double hashing: with a prime number of them each step visits all. Offsets
    are stored with one added, so that 0 is an empty place.
    """

    def __init__(self, slots: int, keys_max: int) -> None:
        self._slots = _prime_from(max(slots, keys_max + 1, 3))
        self._high = array("Q", [0]) * self._slots
        self._low = array("Q", [0]) * self._slots
        self._offsets = array("Q", [0]) * self._slots
        self._seed = int.from_bytes(os.urandom(8), "little")
        self._room = keys_max
        self.end_offset = -1  # behind the last batch that is in it

    def put(self, key: bytes, offset: int) -> bool:
        """Take a key in; False when there is no room for a new one."""
        digest = xxh3_128_intdigest(key, self._seed)
        high, low = digest >> 64, digest & _LOW
        slots, highs, offsets = self._slots, self._high, self._offsets
        at, step = high % slots, 0
        while offsets[at]:
            if highs[at] == high and self._low[at] == low:
                offsets[at] = offset + 1
                return True
            step = step or 1 + low % (slots - 1)
            at = (at + step) % slots
        if not self._room:
            return False
        self._room -= 1
        highs[at], self._low[at], offsets[at] = high, low, offset + 1
        return True

    def is_last(self, key: bytes, offset: int) -> bool:
        """Whether no later record of the key is known."""
        digest = xxh3_128_intdigest(key, self._seed)
        high, low = digest >> 64, digest & _LOW
        slots, highs, offsets = self._slots, self._high, self._offsets
        at, step = high % slots, 0
        while known := offsets[at]:
            if highs[at] == high and self._low[at] == low:
                return known <= offset + 1
            step = step or 1 + low % (slots - 1)
            at = (at + step) % slots
        return True


def _prime_from(number: int) -> int:
    """The first prime that is not below `number`, which is at least 3."""
    number |= 1
    while any(number % divisor == 0 for divisor in range(3, int(number**0.5) + 1, 2)):
        number += 2
    return number
