"""`OffsetMap`, compared with a dict."""

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.log.compaction.offset_map import OffsetMap


@settings(max_examples=150, deadline=None)
@given(
    keys=st.lists(st.binary(max_size=3), max_size=120),
    keys_max=st.integers(0, 60),
    spare=st.integers(0, 9),
)
def test_offset_map_equals_a_dict_until_it_is_full(keys, keys_max, spare) -> None:
    table, expected = OffsetMap(keys_max + spare, keys_max), dict[bytes, int]()
    for offset, key in enumerate(keys):
        has_room = key in expected or len(expected) < keys_max
        assert table.put(key, offset) == has_room
        if has_room:
            expected[key] = offset
    for offset, key in enumerate(keys):
        assert table.is_last(key, offset) == (expected.get(key, -1) <= offset)
    assert table.is_last(b"never seen", 0)


def test_offset_map_when_full_finds_every_key() -> None:
    """With only one free slot, a probe that skips slots would not end."""
    table = OffsetMap(1009, 1008)
    keys = [b"key-%d" % number for number in range(1008)]
    for offset, key in enumerate(keys):
        assert table.put(key, offset)
    assert not table.put(b"one more", 5000)
    for offset, key in enumerate(keys):
        assert table.is_last(key, offset)
        assert not table.is_last(key, offset - 1)


def size_bytes(table: OffsetMap) -> int:
    return sum(len(each) * each.itemsize for each in (table._high, table._low, table._offsets))


def test_offset_map_grows_to_24_bytes_per_slot() -> None:
    table = OffsetMap(100_000, 90_000)
    assert size_bytes(table) < 24.1 * 4096
    keys = [b"key-%d" % number for number in range(90_000)]
    for offset, key in enumerate(keys):
        assert table.put(key, offset)
    assert not table.put(b"one more", 99)
    assert 24 * 100_000 <= size_bytes(table) < 24.01 * 100_000
    for offset, key in enumerate(keys):
        assert table.is_last(key, offset)
        assert not table.is_last(key, offset - 1)
