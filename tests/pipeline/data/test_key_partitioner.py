"""Java's partitioning of keys."""

import pytest

from barnabas.pipeline.data.key_partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_agrees_with_java(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFF_FFFF


def test_partition_of_key_is_within_the_partitions() -> None:
    assert {partition_of(str(each).encode(), 5) for each in range(100)} == set(range(5))
