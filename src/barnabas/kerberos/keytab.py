"""The principals in a key table file (keytab) of MIT's format, versions 1 and 2 of it."""

from struct import Struct, error
from typing import Final

_SIZE: Final = Struct(">i")
_SHORT: Final = {1: Struct("=H"), 2: Struct(">H")}
_MAGIC: Final = 5


class KeytabError(ValueError):
    """The bytes are not a key table."""


def keytab_principals(data: bytes) -> list[str]:
    """Return the principals that a key table has keys of, each once. Raises KeytabError."""
    if len(data) < 2 or data[0] != _MAGIC or data[1] not in _SHORT:
        raise KeytabError("it does not begin as a keytab does")
    size = _SIZE if data[1] == 2 else Struct("=i")
    position = 2
    found: dict[str, None] = {}
    try:
        while position + size.size <= len(data):
            (length,) = size.unpack_from(data, position)
            position += size.size
            if length == 0:
                break
            if length > 0:  # a negative length is that of a hole
                if position + length > len(data):
                    raise KeytabError("it ends within an entry")
                found[_principal(data[position : position + length], data[1])] = None
            position += abs(length)
    except (error, UnicodeDecodeError):
        raise KeytabError("an entry is malformed") from None
    return list(found)


def _principal(entry: bytes, version: int) -> str:
    """Return the principal of an entry. Raises struct.error, UnicodeDecodeError, KeytabError."""
    short = _SHORT[version]
    (count,) = short.unpack_from(entry, 0)
    count -= version == 1  # version 1 counts the realm as well
    position = short.size
    texts: list[str] = []
    for _ in range(count + 1):
        (length,) = short.unpack_from(entry, position)
        position += short.size
        if position + length > len(entry):
            raise KeytabError("a name ends outside of its entry")
        texts.append(entry[position : position + length].decode())
        position += length
    realm, *components = texts
    return f"{'/'.join(components)}@{realm}"
