"""Values as texts: as Java's `toString` shows them, and as Connect's `Values` writes them.

The two differ: `plain_text` shows a map as `{a=1}`, `connect_text` as `{"a":1}`. Bytes are base64
in both; Java's `toString` of bytes is a memory address.
"""

import math
from base64 import b64encode
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final, cast

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Struct
from barnabas.pipeline.data.date_format import DateFormat
from barnabas.pipeline.data.java_values import EpochMillis, java_class_name

MILLIS_PER_DAY: Final = 86_400_000
_PLAIN_MIN: Final = 1e-3
_PLAIN_MAX: Final = 1e7

TIME_FORMAT: Final = DateFormat("HH:mm:ss.SSS'Z'")
DATE_FORMAT: Final = DateFormat("yyyy-MM-dd")
TIMESTAMP_FORMAT: Final = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
_DATE_TO_STRING: Final = DateFormat("EEE MMM dd HH:mm:ss zzz yyyy")


def number_text(number: float) -> str:
    """Return a double or a single as Java's `toString` does: 1.0E7 for ten million."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    magnitude = abs(number)
    shown = float.__repr__(number)
    if magnitude == 0 or _PLAIN_MIN <= magnitude < _PLAIN_MAX:
        return shown
    sign, digits, exponent = Decimal(shown).normalize().as_tuple()
    first, rest = str(digits[0]), "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{cast(int, exponent) + len(digits) - 1}"


def date_text(moment: EpochMillis) -> str:
    """Return a point in time as a time of day, a date or a timestamp, whichever shows it whole."""
    if moment.ms < MILLIS_PER_DAY:
        return TIME_FORMAT.format(moment.ms)
    if moment.ms % MILLIS_PER_DAY == 0:
        return DATE_FORMAT.format(moment.ms)
    return TIMESTAMP_FORMAT.format(moment.ms)


def plain_text(value: Any) -> str:
    """Return a value as Java's `toString` shows it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return int.__repr__(value)
        case float():
            return number_text(value)
        case bytes():
            return b64encode(value).decode()
        case EpochMillis():
            return _DATE_TO_STRING.format(value.ms)
        case list():
            return f"[{', '.join(map(plain_text, cast('list[Any]', value)))}]"
        case dict():
            entries = cast("dict[Any, Any]", value).items()
            return f"{{{', '.join(f'{plain_text(k)}={plain_text(v)}' for k, v in entries)}}}"
        case Struct():
            shown = (
                f"{field.name}={plain_text(each)}"
                for field, each in zip(value.schema.fields, value.values, strict=True)
                if each is not None
            )
            return f"Struct{{{','.join(shown)}}}"
        case _:
            return str(value)


def connect_text(value: Any, *, embedded: bool = False) -> str:
    """Return a value as a header's text; texts inside of other values are quoted.

    Raises DataError for a value that Connect cannot write.
    """
    match value:
        case str():
            return _quoted(value) if embedded else value
        case bytes():
            encoded = b64encode(value).decode()
            return f'"{encoded}"' if embedded else encoded
        case list():
            return f"[{_joined(cast('list[Any]', value))}]"
        case dict():
            return _map_text(cast("dict[Any, Any]", value).items())
        case Struct():
            names = [field.name for field in value.schema.fields]
            values = [value.value_of(field) for field in value.schema.fields]
            return _map_text(zip(names, values, strict=True))
        case EpochMillis():
            return date_text(value)
        case None | bool() | int() | float() | Decimal():
            return plain_text(value)
        case _:
            raise DataError(
                f"Failed to serialize unexpected value type {java_class_name(value)}: {value}"
            )


def _joined(values: Iterable[Any]) -> str:
    return ",".join(connect_text(value, embedded=True) for value in values)


def _map_text(entries: Iterable[tuple[Any, Any]]) -> str:
    shown = (
        f"{connect_text(key, embedded=True)}:{connect_text(value, embedded=True)}"
        for key, value in entries
    )
    return f"{{{','.join(shown)}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
