"""Serdes whose bytes Python functions decode and encode, in Spark's workers.

A record costs some microseconds more than with the serdes that are expressions of Spark.
"""

from collections.abc import Callable
from typing import Any, Final

import attrs

from barnabas.pipeline.data.connect_errors import RetriableError
from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.streams.function_results import converter
from barnabas.pipeline.streams.serdes import Column, DataType, Serde, functions, spark_type

_ERROR_CHARS_MAX: Final = 300
_VALUE_CHARS_MAX: Final = 200


@attrs.frozen
class Custom(Serde):
    """A format of the user: `decode` takes bytes, `encode` returns them.

    `type` is the type of decoded values: DDL such as `BIGINT` or `user STRING, n INT`, or a type of
    Spark. Structs are decoded to dictionaries or tuples, and encoded from rows. An exception of
    `decode`, or a result of another type, makes the record one that does not decode. A null is
    neither decoded nor encoded.
    """

    type: str | DataType
    decode: Callable[[bytes], Any] | None = None
    encode_with: Callable[[Any], bytes] | None = attrs.field(default=None, alias="encode")
    description = "decodable"

    def parse(self, data: Column) -> Column:
        """Return a struct of the value and the text of the exception. Raises ValueError."""
        if self.decode is None:
            raise ValueError("Custom needs decode= to read a topic")
        types = pyspark("sql.types")
        decode, value_type = self.decode, spark_type(self.type)
        convert = converter(value_type)
        kind = types.StructType(
            [
                types.StructField("value", value_type),
                types.StructField("error", types.StringType()),
            ]
        )
        return functions().udf(decoder(lambda raw: convert(decode(raw))), kind)(data)

    def value(self, parsed: Column) -> Column:
        """Return the value of the struct."""
        return parsed["value"]

    def error(self, data: Column, parsed: Column) -> Column:
        """Return the text of the exception."""
        return functions().concat(functions().lit("does not decode: "), parsed["error"])

    def encode(self, value: Column) -> Column:
        """Return the bytes that `encode` makes. Raises ValueError."""
        if self.encode_with is None:
            raise ValueError("Custom needs encode= to write a topic")
        encode, convert = self.encode_with, converter(spark_type("BINARY"))
        name = getattr(encode, "__qualname__", "encode")
        encoded = encoder(lambda given: convert(encode(given)), f"Custom({name})")
        return functions().udf(encoded, "binary")(value)


def decoder(decode: Callable[[bytes], Any]) -> Callable[[Any], tuple[Any, str | None]]:
    """Return a function for workers that decodes bytes: it returns the value, or the error's text.

    A failure that may pass, such as a registry that does not answer, is raised: it is not one of
    the record.
    """

    def decoded(data: Any) -> tuple[Any, str | None]:
        if data is None:
            return None, None
        try:
            return decode(bytes(data)), None
        except RetriableError:
            raise
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"[:_ERROR_CHARS_MAX]

    return decoded


def encoder(encode: Callable[[Any], bytes], name: str) -> Callable[[Any], bytes | None]:
    """Return the function of a worker that encodes values other than null.

    A value that cannot be encoded ends the query: the same would happen again. `name` is the
    serde's, for the error.
    """

    def encoded(value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return encode(value)
        except RetriableError:
            raise
        except Exception as error:
            shown = repr(value)[:_VALUE_CHARS_MAX]
            reason = f"{type(error).__name__}: {error}"[:_ERROR_CHARS_MAX]
            message = f"a value cannot be written as {name}: {reason}; the value is {shown}"
            raise TaskFailureError(message, is_permanent=True) from error

    return encoded
