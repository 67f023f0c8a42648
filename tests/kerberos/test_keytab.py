"""Key table files: the principals in them."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.kerberos.keytab import KeytabError, keytab_principals

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/@"), min_size=1, max_size=8)
PRINCIPALS = st.tuples(st.lists(NAMES, min_size=1, max_size=3), NAMES)
HOLES = st.integers(0, 20)


def counted(text: str, order: str) -> bytes:
    data = text.encode()
    return pack(f"{order}H", len(data)) + data


def keytab(version: int, entries: list[tuple[tuple[list[str], str], int]]) -> bytes:
    """Write a file as MIT's krb5 does; each entry is followed by a hole of some bytes."""
    order = "=" if version == 1 else ">"
    found = bytes((5, version))
    for (components, realm), hole in entries:
        entry = pack(f"{order}H", len(components) + (version == 1)) + counted(realm, order)
        entry += b"".join(counted(each, order) for each in components)
        entry += b"" if version == 1 else pack(">I", 1)
        entry += pack(f"{order}IBH", 0, 1, 18) + counted("0" * 32, order)
        found += pack(f"{order}i", len(entry)) + entry
        if hole:
            found += pack(f"{order}i", -hole) + b"x" * hole
    return found


@given(st.sampled_from([1, 2]), st.lists(st.tuples(PRINCIPALS, HOLES), max_size=4))
def test_principals_are_those_of_the_entries(
    version: int, entries: list[tuple[tuple[list[str], str], int]]
) -> None:
    expected = [f"{'/'.join(components)}@{realm}" for (components, realm), _ in entries]
    assert keytab_principals(keytab(version, entries)) == list(dict.fromkeys(expected))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_other_bytes_raise_only_the_error_of_keytabs(start: bytes, rest: bytes) -> None:
    for data in (start, b"\x05\x02" + rest, b"\x05\x01" + rest):
        try:
            keytab_principals(data)
        except KeytabError:
            continue


@pytest.mark.parametrize("data", [b"", b"\x05", b"\x05\x03", b"hello", b"\x05\x02\0\0\0\x09ab"])
def test_file_that_is_not_a_keytab_raises(data: bytes) -> None:
    with pytest.raises(KeytabError):
        keytab_principals(data)
