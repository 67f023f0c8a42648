"""Functions of bytes: encodings, hashes, identifiers, numbers of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.function_values import (
    Function,
    Signature,
    call,
    row,
    spark,
    takes,
)
from barnabas.pipeline.sql.functions.whole_numbers import wrapped_int
from barnabas.pipeline.sql.sql_types import BIGINT, BYTES, DOUBLE, INTEGER, STRING

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.sql.functions.function_values import Column

_HEX: Final = "^([0-9a-fA-F]{2})*$"
_INFINITE: Final = 0x7FF


def _bytes(name: str, since: str, description: str, *signatures: Signature) -> Function:
    return row(name, "Bytes and encodings", since, description, *signatures)


def _to_bytes(text: Column, encoding: Column) -> Column:
    """Return the bytes of a text in hex, utf8, ascii or base64; NULL where it is not in it."""
    f = spark()
    ascii_text = f.regexp_replace(text, r"[^\x00-\x7F]", "?")
    return (
        f.when(f.lower(encoding) == "hex", _of_hex(text))
        .when(f.lower(encoding) == "utf8", f.encode(text, "UTF-8"))
        .when(f.lower(encoding) == "ascii", f.encode(ascii_text, "UTF-8"))
        .when(f.lower(encoding) == "base64", f.try_to_binary(text, f.lit("base64")))
    )


def _of_hex(text: Column) -> Column:
    """Return the bytes of digits, also as 0x.., which may be odd, and as X'..'."""
    f = spark()
    bare = f.substring(text, f.lit(3), f.length(text))
    even = f.when(f.length(bare) % 2 == 1, f.concat(f.lit("0"), bare)).otherwise(bare)
    inside = f.regexp_extract(text, "^[xX]'(.*)'$", 1)
    digits = (
        f.when(text.rlike(r"^(0[xX]|\\x)"), even)
        .when(text.rlike("^[xX]'.*'$"), inside)
        .otherwise(text)
    )
    return f.when(digits.rlike(_HEX), f.unhex(digits))


def _from_bytes(data: Column, encoding: Column) -> Column:
    """Return bytes as a text in hex, utf8, ascii or base64."""
    f = spark()
    plain = f.make_valid_utf8(data.cast("string"))
    ascii_text = f.regexp_replace(f.decode(data, "ISO-8859-1"), r"[^\x00-\x7F]", "\ufffd")
    return (
        f.when(f.lower(encoding) == "hex", f.hex(data))
        .when(f.lower(encoding) == "utf8", plain)
        .when(f.lower(encoding) == "ascii", ascii_text)
        .when(f.lower(encoding) == "base64", f.base64(data))
    )


def _encoded(text: Column, given: Column, wanted: Column) -> Column:
    found = _from_bytes(_to_bytes(text, given), wanted)
    return spark().when(spark().lower(wanted) == "hex", spark().lower(found)).otherwise(found)


def _big_endian(data: Column, order: Column, size: int) -> Column:
    """Return the digits of bytes in hex, the most significant first; NULL for other lengths."""
    f = spark()
    digits = f.hex(data)
    reversed_digits = f.concat(
        *(f.substring(digits, 2 * place + 1, 2) for place in reversed(range(size)))
    )
    is_one = f.length(data) == size
    return f.when(is_one & (f.upper(order) == "BIG_ENDIAN"), digits).when(
        is_one & (f.upper(order) == "LITTLE_ENDIAN"), reversed_digits
    )


def _bigint(data: Column, order: Column) -> Column:
    return spark().conv(_big_endian(data, order, 8), 16, -10).try_cast("bigint")


def _integer(data: Column, order: Column) -> Column:
    return wrapped_int(spark().conv(_big_endian(data, order, 4), 16, 10).try_cast("bigint"))


def _double(data: Column, order: Column) -> Column:
    """Return the floating-point number of 8 bytes, by its sign, exponent and fraction."""
    f = spark()
    digits = _big_endian(data, order, 8)
    head = f.conv(f.substring(digits, 1, 3), 16, 10).cast("int")
    exponent = head % 2048
    part = f.conv(f.substring(digits, 4, 13), 16, 10).cast("double") / 2**52
    sign = f.when(head >= 2048, f.lit(-1.0)).otherwise(f.lit(1.0))
    power = f.pow(f.lit(2.0), (exponent - 1023).cast("double"))
    size = (
        f.when((exponent == _INFINITE) & (part == 0), f.lit(float("inf")))
        .when(exponent == _INFINITE, f.lit(float("nan")))
        .when(exponent == 0, part * f.pow(f.lit(2.0), f.lit(-1022.0)))
        .otherwise((1 + part) * power)
    )
    return sign * size


def _number(name: str, size: int, by: Callable[[Column, Column], Column]) -> Function:
    def big_endian(data: Column) -> Column:
        return by(data, spark().lit("BIG_ENDIAN"))

    kind = {"INT": INTEGER, "BIGINT": BIGINT, "DOUBLE": DOUBLE}[name]
    return _bytes(
        f"{name}_FROM_BYTES",
        "0.23.1",
        f"The number of {size} bytes, in the order BIG_ENDIAN (default) or LITTLE_ENDIAN.",
        takes(BYTES, to=kind, by=big_endian),
        takes(BYTES, STRING, to=kind, by=by),
    )


def _uuid_of(data: Column) -> Column:
    """Return 16 bytes as an identifier; NULL for other lengths."""
    f = spark()
    digits = f.lower(f.hex(data))
    parts = [f.substring(digits, start, size) for start, size in _UUID_PARTS]
    return f.when(f.length(data) == 16, f.concat_ws("-", *parts))


_UUID_PARTS: Final = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))

ROWS: Final = (
    _number("BIGINT", 8, _bigint),
    _number("DOUBLE", 8, _double),
    _bytes(
        "ENCODE",
        "0.10.0",
        "A text in one encoding as one in another: hex, utf8, ascii or base64.",
        takes(STRING, STRING, STRING, to=STRING, by=_encoded),
    ),
    _bytes(
        "FROM_BYTES",
        "0.21.0",
        "Bytes as a text in an encoding: hex, utf8, ascii or base64.",
        takes(BYTES, STRING, to=STRING, by=_from_bytes),
    ),
    _number("INT", 4, _integer),
    _bytes(
        "MD5",
        "0.29.0",
        "The MD5 hash in hex.",
        takes(STRING, to=STRING, by=lambda text: spark().md5(text)),
    ),
    _bytes(
        "TO_BYTES",
        "0.21.0",
        "The bytes of a text in an encoding: hex, utf8, ascii or base64.",
        takes(STRING, STRING, to=BYTES, by=_to_bytes),
    ),
    _bytes(
        "UUID",
        "0.10.0",
        "A random identifier, or that of 16 bytes.",
        takes(to=STRING, by=lambda: call("uuid")),
        takes(BYTES, to=STRING, by=_uuid_of),
    ),
)
