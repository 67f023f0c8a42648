"""The last offset of each key, in 24 bytes per key (Kafka's `SkimpyOffsetMap`).

Keys are identified by a 128-bit digest, so a collision is practically impossible. The digest has a
random seed: keys chosen to collide in one pass do not collide in the next.
"""

import os
from array import array
from typing import Final

from xxhash import xxh3_128_intdigest

_LOW: Final = (1 << 64) - 1
_SLOTS_MIN: Final = 4096
_GROWTH: Final = 8


class OffsetMap:
    """An open-addressing hash table of `slots` slots, of which `keys_max` may be used.

    The table starts smaller and grows, so few keys use little memory; during the last growth it
    uses an eighth more. Slots are probed by double hashing; their number is prime, so each step
    size visits all slots. Offsets are stored plus one, so 0 is an empty slot.
    """

    def __init__(self, slots: int, keys_max: int) -> None:
        self._slots_max = max(slots, keys_max + 1, 3)
        self._keys_max = keys_max
        self._keys = 0
        self._seed = int.from_bytes(os.urandom(8), "little")
        self.end_offset = -1  # after the last batch whose keys are in the map
        small = max(self._slots_max // _GROWTH**2, _SLOTS_MIN)
        self._allocate(min(small, self._slots_max))

    def _allocate(self, slots: int) -> None:
        self._slots = _prime_from(slots)
        self._room = self._keys_max * slots // self._slots_max - self._keys
        self._high = array("Q", [0]) * self._slots
        self._low = array("Q", [0]) * self._slots
        self._offsets = array("Q", [0]) * self._slots

    def _grow(self) -> None:
        known = zip(self._high, self._low, self._offsets, strict=True)
        self._allocate(min(self._slots * _GROWTH, self._slots_max))
        slots, offsets = self._slots, self._offsets
        for high, low, offset in known:
            if offset:
                at, step = high % slots, 1 + low % (slots - 1)
                while offsets[at]:
                    at = (at + step) % slots
                self._high[at], self._low[at], offsets[at] = high, low, offset

    def put(self, key: bytes, offset: int) -> bool:
        """Store a key's offset. Return False when there is no room for a new key."""
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
        if self._room <= 0:
            if self._keys >= self._keys_max:
                return False
            self._grow()
            return self.put(key, offset)
        self._room -= 1
        self._keys += 1
        highs[at], self._low[at], offsets[at] = high, low, offset + 1
        return True

    def is_last(self, key: bytes, offset: int) -> bool:
        """True when the map has no later record of the key."""
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
    """Return the first prime from `number` on, which is at least 3."""
    number |= 1
    while any(number % divisor == 0 for divisor in range(3, int(number**0.5) + 1, 2)):
        number += 2
    return number
