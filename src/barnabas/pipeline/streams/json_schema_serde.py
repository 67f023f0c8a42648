"""JSON Schema with a schema registry: JSON after the id of its schema.

Types of JSON Schema are columns by the rules of Connect's converter. A property that the schema
does not require may be missing, which is null.
"""

import functools
import importlib.util
import json
from collections.abc import Callable
from typing import Any, Final

import attrs

from barnabas.pipeline.data.connect_schema import check_value
from barnabas.pipeline.data.converters.json_schema_converter import json_parser, validator_of
from barnabas.pipeline.data.converters.json_schema_readers import JsonSchemaReader
from barnabas.pipeline.data.converters.json_schema_values import (
    JsonSchemaStyle,
    value_reader,
    value_writer,
)
from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from barnabas.pipeline.delivery.rows.spark_columns import (
    ROWS,
    Convert,
    SparkType,
    fitting,
    spark_type,
)
from barnabas.pipeline.streams.registry_serdes import (
    RegistrySchemaError,
    RegistrySerde,
    SubjectSerde,
    column_type,
)
from barnabas.pipeline.streams.row_values import of_row
from barnabas.pipeline.streams.serdes import DataType

_STYLE: Final = JsonSchemaStyle(
    optional_unless_required=True, has_numeric_decimals=True, omits_nulls=True
)


@attrs.frozen
class JsonSchema(RegistrySerde):
    """JSON with a JSON Schema.

    Records of other schemas are read as the newest has them: properties that it does not name are
    dropped. `validate=True` checks values against their JSON Schema beyond the types, too: ranges,
    patterns, symbols of an enum.
    """

    validate: bool = False
    schema_type = "JSON"

    def of_subject(
        self, urls: str, subject: str, schema_id: int, schema: RegisteredSchema
    ) -> SubjectSerde:
        """Return the serde of one schema. Raises RegistrySchemaError."""
        if self.validate and importlib.util.find_spec("jsonschema") is None:
            raise RegistrySchemaError(
                "JsonSchema(validate=True) needs jsonschema: pip install jsonschema"
            )
        return SubjectJsonSchema(urls, subject, schema_id, schema, self.validate)


@attrs.frozen
class SubjectJsonSchema(SubjectSerde):
    """JSON of one JSON Schema."""

    validate: bool
    description = "JSON of a schema in the registry"

    def data_type(self) -> DataType:
        """Return the type of values in Spark. Raises DataError."""
        return column_type(_form(self.schema).kind)

    def decoded(self, writer: RegisteredSchema, data: bytes) -> Any:
        """Return the value of data that a schema has written. Raises DataError, ValueError."""
        form = _form(self.schema)
        value = form.parse(data)
        if self.validate:
            _validator(writer)(value)
        return form.read(value)

    def encoded(self, value: Any) -> bytes:
        """Return the data of a value. Raises DataError."""
        text = _form(self.schema).write(value)
        if self.validate:
            _validator(self.schema)(json.loads(text))
        return text.encode()


@attrs.frozen(eq=False)
class _Form:
    """A schema, compiled."""

    kind: SparkType
    parse: Callable[[bytes], Any]
    read: Convert
    """Takes a value of JSON, returns what Spark takes."""
    write: Callable[[Any], str]
    """Takes what Spark gives, returns JSON."""


_validator: Final = functools.cache(validator_of)


@functools.cache
def _form(schema: RegisteredSchema) -> _Form:
    """Return the compiled form of a schema. Raises DataError."""
    references = dict(schema.references)
    connect = JsonSchemaReader(references, _STYLE).schema_of(schema.text)
    kind = spark_type(connect)
    read, to_row, of_value = (
        value_reader(connect, _STYLE),
        fitting(kind, form=ROWS),
        of_row(connect),
    )
    # A property that is not required is left out when it is null, unless its type allows null.
    strict = attrs.evolve(_STYLE, optional_unless_required=False)
    text_of = value_writer(JsonSchemaReader(references, strict).schema_of(schema.text), _STYLE)

    def write(value: Any) -> str:
        found = of_value(value)
        check_value(connect, found)
        return text_of(found)

    return _Form(kind, json_parser(connect), lambda value: to_row(read(value)), write)
