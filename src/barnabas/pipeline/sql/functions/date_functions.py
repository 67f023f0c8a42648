"""Functions of dates, times and timestamps.

Formats are Java's, which Spark reads too. One that Spark does not have (weeks, and letters that it
does not know) gives NULL. Spark prints the zone of its session; the zone of a call, where it is a
literal, is printed by way of JSON, whose writer takes a zone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.bounds import (
    sum_of,
    times,
    timestamp_of,
    timestamp_of_date,
)
from barnabas.pipeline.sql.functions.function_values import (
    UNIT,
    Function,
    Signature,
    call,
    row,
    spark,
    takes,
    takes_literals,
)
from barnabas.pipeline.sql.functions.time_zones import is_zone, zone_pattern
from barnabas.pipeline.sql.functions.units import DAY_MS, unit_ms
from barnabas.pipeline.sql.sql_types import BIGINT, DATE, INTEGER, STRING, TIME, TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.sql.functions.function_values import Column, Literals

_READ: Final = (
    r"G{1,4}|y{1,6}|u{1,6}|M{1,4}|L{1,4}|d{1,2}|D{1,3}|a|h{1,2}|H{1,2}|k{1,2}|K{1,2}|m{1,2}|s{1,2}"
    r"|S{1,9}|VV|v|vvvv|z{1,4}|O|OOOO|X{1,5}|x{1,5}|Z{1,5}"
)
"""The letters that Spark reads as Java does, each with its numbers."""
_WRITTEN: Final = rf"{_READ}|E{{1,4}}|Q{{1,4}}|q{{1,4}}|F|g{{1,6}}"


def _format(letters: str) -> str:
    r"""Return the regular expression of formats; a run of a letter (`\1`) is whole."""
    run = rf"(?=([A-Za-z]))(?:{letters})(?!\1)"
    return rf"^(?:'[^']*'|[^A-Za-z'#{{}}]|{run})*$"


READ_FORMAT: Final = _format(_READ)
FORMAT: Final = _format(_WRITTEN)
_QUOTED: Final = "'[^']*'"
_ZONE: Final = "[VvzOXxZ]"
_PROLEPTIC: Final = "u(?=(?:[^']*'[^']*')*[^']*$)"
"""The letter u outside quotes, for which Spark takes y."""


def _dates(name: str, since: str, description: str, *signatures: Signature) -> Function:
    return row(name, "Dates and times", since, description, *signatures)


def _text(at: Column, pattern: Column) -> Column:
    known = spark().regexp_replace(pattern, _PROLEPTIC, "y")
    return spark().when(pattern.rlike(FORMAT), call("date_format", at, known))


def _text_of_date(date: Column, pattern: Column) -> Column:
    return _text(timestamp_of_date(date), pattern)


def _text_of_days(days: Column, pattern: Column) -> Column:
    return _text_of_date(_date_of_days(days), pattern)


def _text_in_zone(literals: Literals, at: Column, pattern: Column, zone: Column) -> Column:
    _, form, name = literals
    if isinstance(form, str) and isinstance(name, str) and is_zone(name) and _names_zone(form):
        return _text_with_zone(at, form, name)
    return _text(_from_utc(at, zone), pattern)


def _names_zone(form: str) -> bool:
    """True for a format that has the zone in it."""
    return re.search(_ZONE, re.sub(_QUOTED, "", form)) is not None


def _text_with_zone(at: Column, form: str, zone: str) -> Column:
    if not re.match(FORMAT, form):
        return spark().lit(None).cast("string")
    options = {"timestampFormat": re.sub(_PROLEPTIC, "y", form), "timeZone": zone}
    text = spark().to_json(spark().struct(at.alias("at")), options)
    return spark().get_json_object(text, "$.at")


def _parsed(text: Column, pattern: Column) -> Column:
    """Return the TIMESTAMP of a text, NULL when it is not as the format; UTC without a zone."""
    known = spark().regexp_replace(pattern, _PROLEPTIC, "y")
    found = spark().try_to_timestamp(text, known)
    return spark().when(pattern.rlike(READ_FORMAT), _to_millis(found))


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


def _millis(at: Column) -> Column:
    return spark().unix_millis(at)


def _time_at(time: Column) -> Column:
    return spark().timestamp_millis(time.cast("bigint"))


def _time_of(text: Column, pattern: Column) -> Column:
    ms = _millis(_parsed(text, pattern))
    return spark().pmod(ms, spark().lit(DAY_MS)).cast("int")


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
        ms = times(number, sign * unit_ms(str(unit)))
        return timestamp_of(sum_of(spark().unix_millis(at), ms))

    return shifted


def _shifted_date(sign: int) -> Callable[[Column, Column, Column], Column]:
    def shifted(unit: Column, number: Column, date: Column) -> Column:
        ms = times(number, sign * unit_ms(str(unit)))
        at = sum_of(times(spark().unix_date(date), DAY_MS), ms)
        return spark().date_from_unix_date(spark().floor(at / DAY_MS).try_cast("int"))

    return shifted


def _shifted_time(sign: int) -> Callable[[Column, Column, Column], Column]:
    def shifted(unit: Column, number: Column, time: Column) -> Column:
        ms = times(number, sign * unit_ms(str(unit)))
        return spark().pmod(sum_of(time, ms), spark().lit(DAY_MS)).cast("int")

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
        takes(INTEGER, STRING, to=STRING, by=_text_of_days),
    ),
    _dates(
        "FORMAT_DATE",
        "0.20.0",
        "A date as a text in a format.",
        takes(DATE, STRING, to=STRING, by=_text_of_date),
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
        takes_literals(TIMESTAMP, STRING, STRING, to=STRING, by=_text_in_zone),
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
        takes(BIGINT, to=TIMESTAMP, by=timestamp_of),
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
        takes(BIGINT, STRING, to=STRING, by=lambda ms, form: _text(timestamp_of(ms), form)),
        takes_literals(
            BIGINT,
            STRING,
            STRING,
            to=STRING,
            by=lambda literals, ms, form, zone: _text_in_zone(
                literals, timestamp_of(ms), form, zone
            ),
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
