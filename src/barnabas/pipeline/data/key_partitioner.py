"""The partition of a key, as Java's producer chooses it: murmur2 of the key's bytes.

Compaction keeps one record of a key in each partition, so all writers of a topic must agree.
"""

from typing import Final

_MASK: Final = 0xFFFF_FFFF
_MULTIPLIER: Final = 0x5BD1_E995
_SEED: Final = 0x9747_B28C


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key among a number of partitions."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash as an unsigned number."""
    whole = len(data) & ~3
    state = _SEED ^ len(data)
    for place in range(0, whole, 4):
        word = int.from_bytes(data[place : place + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        state = (state * _MULTIPLIER & _MASK) ^ word
    rest = data[whole:]
    if rest:
        state = (state ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    return state ^ state >> 15
