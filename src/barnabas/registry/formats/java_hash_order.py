"""The order in which a Java ``HashSet`` of strings is walked.

The Java registry collects the names of both sides in such a set, and so lists its reasons in this
order. Clients and tests compare the lists.
"""

from collections.abc import Collection


def hash_order(first: Collection[str], then: Collection[str]) -> list[str]:
    """Return the distinct names of two collections in order of Java's hash set.

    The set is made from the first collection, which decides its capacity, and grows by doubling
    when it is three quarters full. Names in one bucket keep the order of insertion.
    """
    names = list(dict.fromkeys((*first, *then)))
    capacity = 16
    while capacity < len(first) * 4 // 3 + 1 or len(names) * 4 > capacity * 3:
        capacity *= 2
    return sorted(names, key=lambda name: _spread(name) & (capacity - 1))


def _spread(name: str) -> int:
    value = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value ^ (value >> 16)
