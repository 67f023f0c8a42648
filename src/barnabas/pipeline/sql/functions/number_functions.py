"""Functions of numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.bounds import SIZE_MAX
from barnabas.pipeline.sql.functions.function_values import (
    ANY_DECIMAL,
    A,
    Function,
    Signature,
    Types,
    first,
    row,
    spark,
    takes,
    takes_many,
    takes_types,
)
from barnabas.pipeline.sql.sql_types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    PRECISION_MAX,
    STRING,
    SqlType,
    array,
    decimal,
    to_spark,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.sql.functions.function_values import Column

_EARTH_KM: Final = 6371.0
_EARTH_MILES: Final = 3959.0
_MILES: Final = ("mi", "mile", "miles")


def _numbers(name: str, since: str, description: str, *signatures: Signature) -> Function:
    return row(name, "Numbers", since, description, *signatures)


def _double(name: str, since: str, description: str, by: Callable[[Column], Column]) -> Function:
    return _numbers(name, since, description, takes(DOUBLE, to=DOUBLE, by=by))


def _spark(name: str, since: str, description: str) -> Function:
    """Return the row of a function that Spark has by the same name."""
    return _double(name, since, description, lambda value: getattr(spark(), name.lower())(value))


def _same(kind: SqlType, by: Callable[[Column], Column]) -> Signature:
    return takes(kind, to=kind, by=by)


def _itself(value: Column) -> Column:
    return value


def _absolute(value: Column) -> Column:
    return spark().when(value < 0, -value).otherwise(value)


def _absolute_whole(value: Column) -> Column:
    """Return the absolute value, which is itself for the lowest, as in Java."""
    least = spark().try_subtract(spark().lit(0).cast("bigint"), value)
    return spark().when(value < 0, spark().coalesce(least, value)).otherwise(value)


def _absolute_int(value: Column) -> Column:
    return spark().when(value > -(2**31), spark().abs(value)).otherwise(value)


def _sign(value: Column) -> Column:
    return spark().when(spark().isnan(value), 0).otherwise(spark().signum(value).cast("int"))


def _log(value: Column) -> Column:
    """Return the natural logarithm: -Infinity for 0, NaN for less."""
    minus, nan = spark().lit(float("-inf")), spark().lit(float("nan"))
    return spark().when(value < 0, nan).when(value == 0, minus).otherwise(spark().ln(value))


def _log_of_base(base: Column, value: Column) -> Column:
    nan, minus = spark().lit(float("nan")), spark().lit(float("-inf"))
    is_bad = (base <= 0) | (base == 1) | (value < 0)
    return spark().when(is_bad, nan).when(value == 0, minus).otherwise(_log(value) / _log(base))


def _cotangent(value: Column) -> Column:
    infinity = spark().lit(math.inf)
    return spark().when(value == 0, infinity).otherwise(1 / spark().tan(value))


def _rounded_double(value: Column, places: Column) -> Column:
    found = spark().round(value, places)
    step = spark().pow(spark().lit(10.0), -places)
    is_half = (value < 0) & ((value - found) * 2 == step)
    return spark().when(is_half, found + step).otherwise(found)


def _to_bigint(value: Column) -> Column:
    return _rounded_double(value, spark().lit(0)).try_cast("bigint")


def _whole_decimal(types: Types) -> SqlType:
    """Return the type of a DECIMAL that was rounded to a whole number."""
    kind = first(types)
    digits = kind.precision - kind.scale + (1 if kind.scale else 0)
    return decimal(min(digits, PRECISION_MAX), 0)


def _round_decimal(types: Types, value: Column, places: Column) -> Column:
    return _half_up(value, places, types[0])


def _round_decimal_whole(types: Types, value: Column) -> Column:
    return _half_up(value, spark().lit(0), _whole_decimal(types))


def _half_up(value: Column, places: Column, to: SqlType) -> Column:
    """Return a DECIMAL rounded to places, halves toward the positive."""
    found = spark().round(value, places)
    above = found + _step(places)
    is_half = (value < 0) & (value - found == above - value)
    kind = to_spark(to)
    return spark().when(is_half, above.try_cast(kind)).otherwise(found.try_cast(kind))


def _step(places: Column) -> Column:
    return spark().pow(spark().lit(10), -places).cast("decimal(38, 10)")


def _extreme(name: str, *values: Column) -> Column:
    """Return the greatest or the least value, which Spark takes of two or more."""
    return values[0] if len(values) == 1 else getattr(spark(), name)(*values)


def _truncated(value: Column, places: Column) -> Column:
    factor = spark().pow(spark().lit(10.0), places)
    scaled = value * factor
    whole = spark().when(scaled < 0, spark().ceil(scaled)).otherwise(spark().floor(scaled))
    return spark().try_divide(whole, factor)


def _cut_decimal(value: Column, places: Column, to: SqlType) -> Column:
    """Return a DECIMAL without the digits after the places."""
    found, step, kind = spark().round(value, places), _step(places), to_spark(to)
    return (
        spark()
        .when((value > 0) & (found > value), (found - step).try_cast(kind))
        .when((value < 0) & (found < value), (found + step).try_cast(kind))
        .otherwise(found.try_cast(kind))
    )


def _trunc_decimal(types: Types, value: Column, places: Column) -> Column:
    return _cut_decimal(value, places, types[0])


def _trunc_decimal_whole(types: Types, value: Column) -> Column:
    return _cut_decimal(value, spark().lit(0), _whole_decimal(types))


def _series(start: Column, end: Column) -> Column:
    one = spark().lit(1).cast("int")
    return _series_by(start, end, spark().when(start > end, -one).otherwise(one))


def _series_by(start: Column, end: Column, step: Column) -> Column:
    """Return the series; one that does not reach its end is NULL, as its row has an error."""
    steps = spark().try_divide(end.cast("double") - start.cast("double"), step.cast("double"))
    return spark().when((steps >= 0) & (steps < SIZE_MAX), spark().sequence(start, end, step))


def _distance(one_lat: Column, one_lon: Column, lat: Column, lon: Column, unit: Column) -> Column:
    """Return the distance on a great circle, by the haversine."""
    f = spark()
    half = (f.sin(f.radians(lat - one_lat) / 2), f.sin(f.radians(lon - one_lon) / 2))
    part = half[0] * half[0] + half[1] * half[1] * f.cos(f.radians(one_lat)) * f.cos(f.radians(lat))
    angle = 2 * f.asin(f.sqrt(part))
    radius = f.when(f.lower(unit).isin(*_MILES), _EARTH_MILES).otherwise(_EARTH_KM)
    is_place = (f.abs(lat) <= 90) & (f.abs(one_lat) <= 90)
    return f.when(is_place & (f.abs(lon) <= 180) & (f.abs(one_lon) <= 180), angle * radius)


def _distance_km(one_lat: Column, one_lon: Column, lat: Column, lon: Column) -> Column:
    return _distance(one_lat, one_lon, lat, lon, spark().lit("km"))


def _floor(value: Column) -> Column:
    return spark().floor(value).cast("double")


def _ceil(value: Column) -> Column:
    return spark().ceil(value).cast("double")


def _floor_decimal(types: Types, value: Column) -> Column:
    return spark().floor(value).try_cast(to_spark(_whole_decimal(types)))


def _ceil_decimal(types: Types, value: Column) -> Column:
    return spark().ceil(value).try_cast(to_spark(_whole_decimal(types)))


ROWS: Final = (
    _numbers(
        "ABS",
        "0.1.0",
        "The absolute value.",
        _same(INTEGER, _absolute_int),
        _same(BIGINT, _absolute_whole),
        takes(ANY_DECIMAL, to=first, by=_absolute),
        _same(DOUBLE, _absolute),
    ),
    _spark("ACOS", "0.28.0", "The inverse cosine in radians; NaN outside [-1, 1]."),
    _spark("ASIN", "0.28.0", "The inverse sine in radians; NaN outside [-1, 1]."),
    _spark("ATAN", "0.28.0", "The inverse tangent in radians."),
    _numbers(
        "ATAN2",
        "0.28.0",
        "The angle of the point (x, y), of which y is the first argument.",
        takes(DOUBLE, DOUBLE, to=DOUBLE, by=lambda y, x: spark().atan2(y, x)),
    ),
    _spark("CBRT", "0.29.0", "The cube root."),
    _numbers(
        "CEIL",
        "0.1.0",
        "The smallest whole number that is not less.",
        _same(INTEGER, _itself),
        _same(BIGINT, _itself),
        takes_types(ANY_DECIMAL, to=_whole_decimal, by=_ceil_decimal),
        _same(DOUBLE, _ceil),
    ),
    _spark("COS", "0.28.0", "The cosine of an angle in radians."),
    _spark("COSH", "0.28.0", "The hyperbolic cosine."),
    _double("COT", "0.28.0", "The cotangent of an angle in radians.", _cotangent),
    _spark("DEGREES", "0.28.0", "Radians as degrees."),
    _spark("EXP", "0.6.0", "The exponential."),
    _numbers(
        "FLOOR",
        "0.1.0",
        "The largest whole number that is not greater.",
        _same(INTEGER, _itself),
        _same(BIGINT, _itself),
        takes_types(ANY_DECIMAL, to=_whole_decimal, by=_floor_decimal),
        _same(DOUBLE, _floor),
    ),
    _numbers(
        "GENERATE_SERIES",
        "0.6.0",
        "An array of the whole numbers from the first to the second, by a step.",
        takes(INTEGER, INTEGER, to=array(INTEGER), by=_series),
        takes(BIGINT, BIGINT, to=array(BIGINT), by=_series),
        takes(INTEGER, INTEGER, INTEGER, to=array(INTEGER), by=_series_by),
        takes(BIGINT, BIGINT, INTEGER, to=array(BIGINT), by=_series_by),
    ),
    _numbers(
        "GEO_DISTANCE",
        "0.6.0",
        "The distance of two places (latitude, longitude, twice, in degrees), in KM or MILES.",
        takes(DOUBLE, DOUBLE, DOUBLE, DOUBLE, to=DOUBLE, by=_distance_km),
        takes(DOUBLE, DOUBLE, DOUBLE, DOUBLE, STRING, to=DOUBLE, by=_distance),
    ),
    _numbers(
        "GREATEST",
        "0.20.0",
        "The largest of the values that are not NULL.",
        takes_many(A, A, to=A, by=lambda *values: _extreme("greatest", *values)),
    ),
    _numbers(
        "LEAST",
        "0.20.0",
        "The smallest of the values that are not NULL.",
        takes_many(A, A, to=A, by=lambda *values: _extreme("least", *values)),
    ),
    _double("LN", "0.6.0", "The natural logarithm.", _log),
    _numbers(
        "LOG",
        "0.29.0",
        "The natural logarithm, as ksqlDB computes it, or that to the first of two arguments.",
        takes(DOUBLE, to=DOUBLE, by=_log),
        takes(DOUBLE, DOUBLE, to=DOUBLE, by=_log_of_base),
    ),
    _numbers("PI", "0.28.0", "The number pi.", takes(to=DOUBLE, by=lambda: spark().lit(math.pi))),
    _numbers(
        "POWER",
        "0.29.0",
        "The first number to the power of the second.",
        takes(DOUBLE, DOUBLE, to=DOUBLE, by=lambda base, power: spark().pow(base, power)),
    ),
    _spark("RADIANS", "0.28.0", "Degrees as radians."),
    _numbers(
        "RANDOM",
        "0.1.0",
        "A random number from 0 to 1.",
        takes(to=DOUBLE, by=lambda: spark().rand()),
    ),
    _numbers(
        "ROUND",
        "0.1.0",
        "A number rounded to places (a constant), halves toward the positive.",
        _same(INTEGER, _itself),
        _same(BIGINT, _itself),
        takes_types(ANY_DECIMAL, to=_whole_decimal, by=_round_decimal_whole),
        takes(DOUBLE, to=BIGINT, by=_to_bigint),
        takes_types(ANY_DECIMAL, INTEGER, to=first, by=_round_decimal),
        takes(DOUBLE, INTEGER, to=DOUBLE, by=_rounded_double),
    ),
    _numbers("SIGN", "0.6.0", "-1, 0 or 1.", takes(DOUBLE, to=INTEGER, by=_sign)),
    _spark("SIN", "0.28.0", "The sine of an angle in radians."),
    _spark("SINH", "0.28.0", "The hyperbolic sine."),
    _spark("SQRT", "0.6.0", "The square root."),
    _spark("TAN", "0.28.0", "The tangent of an angle in radians."),
    _spark("TANH", "0.28.0", "The hyperbolic tangent."),
    _numbers(
        "TRUNC",
        "0.29.0",
        "A number cut off at places (a constant).",
        _same(INTEGER, _itself),
        _same(BIGINT, _itself),
        takes_types(ANY_DECIMAL, to=_whole_decimal, by=_trunc_decimal_whole),
        takes(DOUBLE, to=BIGINT, by=lambda value: value.try_cast("bigint")),
        takes_types(ANY_DECIMAL, INTEGER, to=first, by=_trunc_decimal),
        takes(DOUBLE, INTEGER, to=DOUBLE, by=_truncated),
    ),
)
