"""Functions of dates, times and timestamps.

Formats are Java's, which Spark reads too. One that Spark does not have (weeks, and letters that it
does not know) gives NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.function_values import (
    UNIT,
    Function,
    Signature,
    call,
    row,
    spark,
    takes,
)
from barnabas.pipeline.sql.functions.time_zones import zone_pattern
from barnabas.pipeline.sql.functions.units import unit_ms
from barnabas.pipeline.sql.sql_types import BIGINT, DATE, INTEGER, STRING, TIME, TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.sql.functions.function_values import Column

_DAY_MS: Final = 86_400_000
_LETTERS: Final = (
    r"G{1,5}|y{1,6}|u{1,6}|M{1,5}|L{1,5}|d{1,2}|D{1,3}|E{1,4}|a|h{1,2}|H{1,2}|k{1,2}|K{1,2}|m{1,2}"
    r"|s{1,2}|S{1,9}|VV|z{1,4}|O|OOOO|X{1,5}|x{1,5}|Z{1,5}|Q{1,5}|q{1,5}"
)
_FORMAT: Final = rf"^(?:'[^']*'|[^A-Za-z'#{{}}]|(?:{_LETTERS})(?![A-Za-z])|(?:{_LETTERS}))*$"
_QUOTED: Final = "'[^']*'"
_ZONE: Final = "[VzOXxZ]"


def _dates(name: str, since: str, description: str, *signatures: Signature) -> Function:
    return row(name, "Dates and times", since, description, *signatures)


def _text(at: Column, pattern: Column) -> Column:
    return spark().when(pattern.rlike(_FORMAT), call("date_format", at, pattern))


def _text_in_zone(at: Column, pattern: Column, zone: Column) -> Column:
    return _text(_from_utc(at, zone), pattern)


def _parsed(text: Column, pattern: Column) -> Column:
    """Return the TIMESTAMP of a text, NULL when it is not as the format; UTC without a zone."""
    found = spark().try_to_timestamp(text, pattern)
    return spark().when(pattern.rlike(_FORMAT), _to_millis(found))


def _to_millis(at: Column) -> Column:
    return spark().date_trunc("millisecond", at)


def _parsed_in_zone(text: Column, pattern: Column, zone: Column) -> Column:
    found = _parsed(text, pattern)
    has_zone = spark().regexp_replace(pattern, _QUOTED, "").rlike(_ZONE)
    return spark().when(has_zone, found).otherwise(_to_utc(found, zone))


def _is_zone(zone: Column) -> Column:
    return zone.rlike(zone_pattern())


def _to_utc(at: Column, zone: Column) -> Column:
    return spark().when(_is_zone(zone), spark().to_utc_timestamp(at, zone))


def _from_utc(at: Column, zone: Column) -> Column:
    return spark().when(_is_zone(zone), spark().from_utc_timestamp(at, zone))


def _moved(at: Column, zone: Column, other: Column) -> Column:
    return _from_utc(_to_utc(at, zone), other)


def _of_millis(ms: Column) -> Column:
    return spark().timestamp_millis(ms)


def _millis(at: Column) -> Column:
    return spark().unix_millis(at)


def _time_at(time: Column) -> Column:
    return spark().timestamp_millis(time.cast("bigint"))


def _time_of(text: Column, pattern: Column) -> Column:
    ms = _millis(_parsed(text, pattern))
    return spark().pmod(ms, spark().lit(_DAY_MS)).cast("int")


def _date_of(text: Column, pattern: Column) -> Column:
    return _parsed(text, pattern).cast("date")


def _days(date: Column) -> Column:
    return spark().unix_date(date)


def _date_of_days(days: Column) -> Column:
    return spark().date_from_unix_date(days)


def _today() -> Column:
    return spark().unix_date(spark().current_date())


def _now() -> Column:
    return spark().unix_millis(spark().current_timestamp())


def _shifted_timestamp(sign: int) -> Callable[[Column, Column, Column], Column]:
    def shifted(unit: Column, number: Column, at: Column) -> Column:
        ms = number.cast("bigint") * (sign * unit_ms(str(unit)))
        return spark().timestamp_millis(spark().unix_millis(at) + ms)

    return shifted


def _shifted_date(sign: int) -> Callable[[Column, Column, Column], Column]:
    def shifted(unit: Column, number: Column, date: Column) -> Column:
        ms = number.cast("bigint") * (sign * unit_ms(str(unit)))
        at = spark().unix_date(date).cast("bigint") * _DAY_MS + ms
        return spark().date_from_unix_date(spark().floor(at / _DAY_MS).cast("int"))

    return shifted


def _shifted_time(sign: int) -> Callable[[Column, Column, Column], Column]:
    def shifted(unit: Column, number: Column, time: Column) -> Column:
        ms = number.cast("bigint") * (sign * unit_ms(str(unit)))
        return spark().pmod(time + ms, spark().lit(_DAY_MS)).cast("int")

    return shifted


def _shifts(
    name: str, since: str, text: str, by: Callable[[int], Callable[..., Column]]
) -> tuple[Function, Function]:
    declared = {"DATE": DATE, "TIME": TIME, "TIMESTAMP": TIMESTAMP}[name]
    return (
        _dates(
            f"{name}ADD",
            since,
            f"{text} plus units.",
            takes(UNIT, INTEGER, declared, to=declared, by=by(1)),
        ),
        _dates(
            f"{name}SUB",
            since,
            f"{text} less units.",
            takes(UNIT, INTEGER, declared, to=declared, by=by(-1)),
        ),
    )


ROWS: Final = (
    _dates(
        "CONVERT_TZ",
        "0.17.0",
        "A timestamp in one time zone as one in another.",
        takes(TIMESTAMP, STRING, STRING, to=TIMESTAMP, by=_moved),
    ),
    *_shifts("DATE", "0.20.0", "A date", _shifted_date),
    _dates(
        "DATETOSTRING",
        "0.7.1",
        "Days since 1970 as a text in a format. Deprecated: use FORMAT_DATE.",
        takes(INTEGER, STRING, to=STRING, by=lambda days, form: _text(_date_of_days(days), form)),
    ),
    _dates(
        "FORMAT_DATE",
        "0.20.0",
        "A date as a text in a format.",
        takes(DATE, STRING, to=STRING, by=_text),
    ),
    _dates(
        "FORMAT_TIME",
        "0.20.0",
        "A time as a text in a format.",
        takes(TIME, STRING, to=STRING, by=lambda time, form: _text(_time_at(time), form)),
    ),
    _dates(
        "FORMAT_TIMESTAMP",
        "0.17.0",
        "A timestamp as a text in a format, in UTC or a time zone.",
        takes(TIMESTAMP, STRING, to=STRING, by=_text),
        takes(TIMESTAMP, STRING, STRING, to=STRING, by=_text_in_zone),
    ),
    _dates(
        "FROM_DAYS",
        "0.20.0",
        "The date of days since 1970.",
        takes(INTEGER, to=DATE, by=_date_of_days),
    ),
    _dates(
        "FROM_UNIXTIME",
        "0.17.0",
        "The timestamp of milliseconds since 1970.",
        takes(BIGINT, to=TIMESTAMP, by=_of_millis),
    ),
    _dates(
        "PARSE_DATE",
        "0.20.0",
        "The date of a text in a format.",
        takes(STRING, STRING, to=DATE, by=_date_of),
    ),
    _dates(
        "PARSE_TIME",
        "0.20.0",
        "The time of a text in a format.",
        takes(STRING, STRING, to=TIME, by=_time_of),
    ),
    _dates(
        "PARSE_TIMESTAMP",
        "0.17.0",
        "The timestamp of a text in a format, in UTC or a time zone.",
        takes(STRING, STRING, to=TIMESTAMP, by=_parsed),
        takes(STRING, STRING, STRING, to=TIMESTAMP, by=_parsed_in_zone),
    ),
    _dates(
        "STRINGTODATE",
        "0.7.1",
        "The days since 1970 of a text in a format. Deprecated: use PARSE_DATE.",
        takes(STRING, STRING, to=INTEGER, by=lambda text, form: _days(_date_of(text, form))),
    ),
    _dates(
        "STRINGTOTIMESTAMP",
        "0.7.1",
        "The milliseconds since 1970 of a text in a format. Deprecated: use PARSE_TIMESTAMP.",
        takes(STRING, STRING, to=BIGINT, by=lambda text, form: _millis(_parsed(text, form))),
        takes(
            STRING,
            STRING,
            STRING,
            to=BIGINT,
            by=lambda text, form, zone: _millis(_parsed_in_zone(text, form, zone)),
        ),
    ),
    *_shifts("TIME", "0.20.0", "A time of day", _shifted_time),
    *_shifts("TIMESTAMP", "0.17.0", "A timestamp", _shifted_timestamp),
    _dates(
        "TIMESTAMPTOSTRING",
        "0.7.1",
        "Milliseconds since 1970 as a text in a format. Deprecated: use FORMAT_TIMESTAMP.",
        takes(BIGINT, STRING, to=STRING, by=lambda ms, form: _text(_of_millis(ms), form)),
        takes(
            BIGINT,
            STRING,
            STRING,
            to=STRING,
            by=lambda ms, form, zone: _text_in_zone(_of_millis(ms), form, zone),
        ),
    ),
    _dates(
        "UNIX_DATE",
        "0.6.0",
        "The days since 1970 of a date, or of today.",
        takes(to=INTEGER, by=_today),
        takes(DATE, to=INTEGER, by=_days),
    ),
    _dates(
        "UNIX_TIMESTAMP",
        "0.6.0",
        "The milliseconds since 1970 of a timestamp, or of now.",
        takes(to=BIGINT, by=_now),
        takes(TIMESTAMP, to=BIGINT, by=_millis),
    ),
)
