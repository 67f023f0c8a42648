"""Distinguished names, compared with what Java prints for the same bytes.

Each line of testdata/java-names.txt has a name in DER and the UTF-8 bytes of
`new X500Principal(der).getName()`, both in hexadecimal digits.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.key_stores.der import elements
from barnabas.security.distinguished_names import distinguished_name

LINES = (Path(__file__).parent / "testdata/java-names.txt").read_text().splitlines()


@pytest.mark.parametrize("line", LINES)
def test_name_is_written_as_java_writes_it(line: str) -> None:
    der, _, name = line.partition(" ")
    assert distinguished_name(bytes.fromhex(der)) == bytes.fromhex(name).decode()


@given(st.binary(max_size=60))
def test_any_bytes_give_elements_or_a_value_error(data: bytes) -> None:
    try:
        found = list(elements(data))
    except ValueError:
        return
    assert b"".join(element.encoding for element in found) == data


@pytest.mark.parametrize("line", LINES[:5])
def test_cut_name_raises(line: str) -> None:
    der = bytes.fromhex(line.partition(" ")[0])
    for size in range(len(der)):
        with pytest.raises(ValueError, match="DER"):
            distinguished_name(der[:size])
