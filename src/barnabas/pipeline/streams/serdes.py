"""Serdes: how the bytes of keys and values become columns, and columns bytes.

The formats are those of Apache Kafka's serializers with the same names: numbers are big-endian,
text is UTF-8. They are expressions of Spark, so no Python runs for them.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from barnabas.pipeline.delivery.driver.spark_library import pyspark

Column: TypeAlias = Any
"""A `pyspark.sql.Column`."""

Step: TypeAlias = Callable[[Column], Column]
"""A part of what reads bytes, which takes the result of the one before."""

DataType: TypeAlias = Any
"""A `pyspark.sql.types.DataType`."""

_CORRUPT: Final = "_corrupt_record"
_UUID: Final = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_LONG_DIGITS: Final = 16


def functions() -> Any:
    """Return Spark's functions of columns."""
    return pyspark("sql.functions")


@attrs.frozen
class SerdeContext:
    """The place that a serde is used in."""

    topic: str
    side: str
    """`key` or `value`."""
    registry: str = ""
    """The address of the schema registry, or an empty text."""


class Serde:
    """Converts between bytes of a topic and values of a column.

    `parse` runs once for each record; `value` and `error` read its result. A null stays a null.
    """

    description: ClassVar[str]
    """What the bytes must be, for errors."""

    def prepared(self, context: SerdeContext) -> "Serde":
        """Return the serde for one topic, which may need a schema from a registry."""
        return self

    def parse(self, data: Column) -> Column:
        """Return what the bytes hold, in a form of this serde."""
        raise NotImplementedError

    def steps(self) -> Sequence[Step]:
        """Return the parts of `parse`, each of which takes the result of the one before.

        Spark computes each once for a record and compiles it. What one expression has to compute
        once for several uses, it interprets.
        """
        return (self.parse,)

    def value(self, parsed: Column) -> Column:
        """Return the value of what `parse` returned."""
        return parsed

    def is_bad(self, data: Column, parsed: Column) -> Column | None:
        """Return a condition for bytes that are not valid; None when all bytes are."""
        return None

    def error(self, data: Column, parsed: Column) -> Column | None:
        """Return the text that says why bytes are not valid, null where they are."""
        condition = self.is_bad(data, parsed)
        if condition is None:
            return None
        is_bad = functions().coalesce(condition, functions().lit(False))
        return functions().when(is_bad, f"is not {self.description}")

    def encode(self, value: Column) -> Column:
        """Return the bytes of a value."""
        raise NotImplementedError


class Bytes(Serde):
    """Bytes as they are."""

    description = "bytes"

    def parse(self, data: Column) -> Column:
        """Return the bytes."""
        return data

    def encode(self, value: Column) -> Column:
        """Return the bytes."""
        return value.cast("binary")


class String(Serde):
    """Text in UTF-8; bytes that are not valid UTF-8 become U+FFFD, as in Java."""

    description = "text"

    def parse(self, data: Column) -> Column:
        """Return the text."""
        return functions().make_valid_utf8(data.cast("string"))

    def encode(self, value: Column) -> Column:
        """Return the text in UTF-8."""
        return value.cast("string").cast("binary")


class Uuid(Serde):
    """A UUID as text, for example `00000000-0000-0000-0000-000000000000`."""

    description = "a UUID as text"

    def parse(self, data: Column) -> Column:
        """Return the text."""
        return data.cast("string")

    def is_bad(self, data: Column, parsed: Column) -> Column:
        """Return the condition for text that is not a UUID."""
        return ~parsed.rlike(_UUID)

    def encode(self, value: Column) -> Column:
        """Return the text in UTF-8."""
        return value.cast("string").cast("binary")


class _Number(Serde):
    """A number of fixed length."""

    sql_type: ClassVar[str]
    length: ClassVar[int]

    def is_bad(self, data: Column, parsed: Column) -> Column:
        """Return the condition for another number of bytes."""
        return functions().length(data) != self.length

    def parse(self, data: Column) -> Column:
        """Return the number; null for another number of bytes."""
        number = self._of_bits(_signed(data, self.length))
        return functions().when(functions().length(data) == self.length, number)

    def encode(self, value: Column) -> Column:
        """Return the number's bytes."""
        digits = functions().lpad(functions().hex(self._bits(value)), _LONG_DIGITS, "0")
        return functions().unhex(functions().right(digits, functions().lit(2 * self.length)))

    def _of_bits(self, bits: Column) -> Column:
        return bits.cast(self.sql_type)

    def _bits(self, value: Column) -> Column:
        return value.cast(self.sql_type).cast("bigint")


class Short(_Number):
    """An integer of 2 bytes."""

    description, sql_type, length = "an integer of 2 bytes", "smallint", 2


class Integer(_Number):
    """An integer of 4 bytes."""

    description, sql_type, length = "an integer of 4 bytes", "int", 4


class Long(_Number):
    """An integer of 8 bytes."""

    description, sql_type, length = "an integer of 8 bytes", "bigint", 8


class _Real(_Number):
    """A floating-point number, whose bits Java's classes convert."""

    java_class: ClassVar[str]
    of_bits: ClassVar[str]
    to_bits: ClassVar[str]
    bits_type: ClassVar[str]

    def _of_bits(self, bits: Column) -> Column:
        return self._call(self.of_bits, bits.cast(self.bits_type)).cast(self.sql_type)

    def _bits(self, value: Column) -> Column:
        known = functions().when(value.isNotNull(), value.cast(self.sql_type))
        zero = functions().lit(0).cast(self.sql_type)
        bits = self._call(self.to_bits, functions().coalesce(known, zero))
        return functions().when(value.isNotNull(), bits.cast("bigint"))

    def _call(self, method: str, argument: Column) -> Column:
        literal = functions().lit
        return functions().java_method(literal(self.java_class), literal(method), argument)


class Float(_Real):
    """A floating-point number of 4 bytes."""

    description, sql_type, length = "a floating-point number of 4 bytes", "float", 4
    java_class, bits_type = "java.lang.Float", "int"
    of_bits, to_bits = "intBitsToFloat", "floatToRawIntBits"


class Double(_Real):
    """A floating-point number of 8 bytes."""

    description, sql_type, length = "a floating-point number of 8 bytes", "double", 8
    java_class, bits_type = "java.lang.Double", "bigint"
    of_bits, to_bits = "longBitsToDouble", "doubleToRawLongBits"


def _signed(data: Column, length: int) -> Column:
    """Return big-endian bytes as text of a signed number, which casts to any integer type."""
    digits = functions().hex(data)
    filler = _LONG_DIGITS - 2 * length
    is_negative = functions().substring(digits, 1, 1) >= "8"
    sign = functions().when(is_negative, "F" * filler).otherwise("0" * filler)
    return functions().conv(functions().concat(sign, digits), 16, -10)


@attrs.frozen
class Json(Serde):
    """JSON; `schema` is the DDL of the fields (`user STRING, ms LONG`), or a type of Spark.

    Fields that the schema does not name are dropped, missing ones are null. The schema is needed to
    read; it may be omitted to write.
    """

    schema: str | DataType = None
    description = "JSON of the schema"

    def parse(self, data: Column) -> Column:
        """Return the value with its text when that does not fit the schema. Raises ValueError."""
        options = {"mode": "PERMISSIVE"}
        kind = self._type()
        types = pyspark("sql.types")
        if isinstance(kind, types.StructType):
            kind = types.StructType([*kind.fields, types.StructField(_CORRUPT, types.StringType())])
            options["columnNameOfCorruptRecord"] = _CORRUPT
        return functions().from_json(data.cast("string"), kind, options)

    def value(self, parsed: Column) -> Column:
        """Return the value without the text."""
        return parsed.dropFields(_CORRUPT) if self._is_struct() else parsed

    def is_bad(self, data: Column, parsed: Column) -> Column:
        """Return the condition for text that is not JSON, or does not fit the schema."""
        is_null = functions().trim(data.cast("string")) == "null"
        missing = data.isNotNull() & parsed.isNull() & ~is_null
        return missing | parsed[_CORRUPT].isNotNull() if self._is_struct() else missing

    def encode(self, value: Column) -> Column:
        """Return the JSON of a struct, an array or a map."""
        return functions().to_json(value, {"ignoreNullFields": "false"}).cast("binary")

    def _is_struct(self) -> bool:
        return isinstance(self._type(), pyspark("sql.types").StructType)

    def _type(self) -> DataType:
        if self.schema is None:
            raise ValueError("Json needs a schema to read: Json('user STRING, ms LONG')")
        return spark_type(self.schema)


def spark_type(kind: str | DataType) -> DataType:
    """Return a type of Spark from its DDL."""
    return pyspark("sql.types").DataType.fromDDL(kind) if isinstance(kind, str) else kind


def default_serde(data_type: DataType) -> Serde | None:
    """Return the serde that values of a type are written with unless one is named."""
    name = data_type.typeName()
    return _DEFAULTS[name]() if name in _DEFAULTS else None


_DEFAULTS: Final[dict[str, type[Serde]]] = {
    "binary": Bytes,
    "string": String,
    "short": Short,
    "integer": Integer,
    "long": Long,
    "float": Float,
    "double": Double,
    "struct": Json,
    "array": Json,
    "map": Json,
}
