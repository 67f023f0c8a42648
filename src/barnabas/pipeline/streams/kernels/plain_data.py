"""Plain data as msgpack: None, bool, int, float, str, bytes, Decimal, lists and dicts.

Reading it runs no code of the data. Integers beyond 64 bits and decimals are extension types.
"""

import importlib
from decimal import Decimal, InvalidOperation
from typing import Any, Final

_msgpack: Final[Any] = importlib.import_module("msgpack")  # it has no types
_BIG_INTEGER: Final = 1
_DECIMAL: Final = 2


def pack(value: Any) -> bytes:
    """Return the bytes of plain data. Raises ValueError when it is something else."""
    try:
        return _msgpack.packb(value, default=_extended, use_bin_type=True)
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error


def unpack(data: bytes) -> Any:
    """Return the plain data of bytes. Raises ValueError when they are damaged."""
    try:
        return _msgpack.unpackb(data, ext_hook=_value, strict_map_key=False)
    except ValueError:
        raise
    except Exception as error:  # msgpack raises several kinds for damaged bytes
        raise ValueError(str(error)) from error


def _extended(value: Any) -> Any:
    if isinstance(value, int):  # beyond 64 bits
        return _msgpack.ExtType(_BIG_INTEGER, str(value).encode())
    if isinstance(value, Decimal):
        return _msgpack.ExtType(_DECIMAL, str(value).encode())
    raise TypeError(
        f"{type(value).__name__} is not plain data: keep None, bool, int, float, str, bytes, "
        "Decimal, lists and dicts"
    )


def _value(code: int, data: bytes) -> Any:
    if code == _BIG_INTEGER:
        return int(data)
    if code == _DECIMAL:
        try:
            return Decimal(data.decode())
        except InvalidOperation as error:
            raise ValueError(f"{data!r} is not a decimal number") from error
    raise ValueError(f"extension type {code} is unknown")
