"""JSON Schema with a schema registry, under the name and the properties of Confluent's converter.

A value is plain JSON after the id of its schema.
"""

import importlib.util
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema
from barnabas.pipeline.data.converters.converter_base import SchemaAndValue
from barnabas.pipeline.data.converters.json_readers import needs_exact_decimals
from barnabas.pipeline.data.converters.json_schema_readers import JsonSchemaReader
from barnabas.pipeline.data.converters.json_schema_texts import json_schema_of
from barnabas.pipeline.data.converters.json_schema_values import (
    JsonSchemaStyle,
    value_reader,
    value_writer,
)
from barnabas.pipeline.data.converters.registry_base import (
    Decoding,
    Encoding,
    RegistryConverter,
    cache_key,
    refused_key,
    registry_definition,
    registry_key,
)
from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from barnabas.pipeline.definitions.config_def import Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue
from barnabas.pipeline.definitions.config_validators import OneOf

_CACHE_SIZE: Final = "schemas.cache.size"
_VALIDATION: Final = "json.fail.invalid.schema"


def _no_constant(name: str) -> Any:
    raise DataError(f"{name} is not JSON")


def _with_library(name: str, value: ParsedValue) -> None:
    if value is True and importlib.util.find_spec("jsonschema") is None:
        raise ConfigValueError.of(name, value, "jsonschema is missing: pip install jsonschema")


class JsonSchemaConverter(RegistryConverter):
    """Reads and writes JSON with a registered JSON Schema."""

    java_class = "io.confluent.connect.json.JsonSchemaConverter"
    schema_type = "JSON"
    format_name = "JSON"
    cache_property = _CACHE_SIZE
    definition = registry_definition(
        registry_key(
            "object.additional.properties",
            ConfigType.BOOLEAN,
            True,
            Importance.MEDIUM,
            "False registers schemas whose objects refuse properties that they do not list.",
        ),
        registry_key(
            "use.optional.for.nonrequired",
            ConfigType.BOOLEAN,
            False,
            Importance.MEDIUM,
            "True when properties that a schema does not require may be missing.",
        ),
        registry_key(
            "decimal.format",
            ConfigType.STRING,
            "BASE64",
            Importance.LOW,
            "The form of decimals: BASE64 of their bytes, or NUMERIC.",
            OneOf(("BASE64", "NUMERIC"), ignores_case=True),
        ),
        registry_key(
            _VALIDATION,
            ConfigType.BOOLEAN,
            False,
            Importance.MEDIUM,
            "True when values are checked against the JSON Schema, also beyond their types.",
            _with_library,
        ),
        cache_key(_CACHE_SIZE),
        refused_key("generalized.sum.type.support", "false"),
        refused_key("ignore.default.for.nullables", "false"),
        refused_key("ignore.modern.dialects", "false"),
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        super().accept(values)
        self._validates = values[_VALIDATION] is True
        self._style = JsonSchemaStyle(
            allows_additional=values["object.additional.properties"] is True,
            optional_unless_required=values["use.optional.for.nonrequired"] is True,
            has_numeric_decimals=str(values["decimal.format"]).upper() == "NUMERIC",
        )

    def decoding_of(self, registered: RegisteredSchema) -> Decoding:
        """Return how data of a registered schema is decoded. Raises DataError."""
        schema = JsonSchemaReader(dict(registered.references), self._style).schema_of(
            registered.text
        )
        read = value_reader(schema, self._style)
        check = self._check(registered)
        parse = json_parser(schema)

        def decode(data: bytes) -> SchemaAndValue:
            value = parse(data)
            check(value)
            return schema, read(value)

        return Decoding(decode)

    def encoding_of(self, schema: Schema) -> Encoding:
        """Return how values of a schema are encoded. Raises DataError."""
        registered = RegisteredSchema(
            self.schema_type, json.dumps(json_schema_of(schema, self._style))
        )
        write = value_writer(schema, self._style)
        if not self._validates:
            return Encoding(registered, schema.name, lambda value: write(value).encode())
        check = self._check(registered)

        def encode(value: Any) -> bytes:
            text = write(value)
            check(json.loads(text))
            return text.encode()

        return Encoding(registered, schema.name, encode)

    def _check(self, registered: RegisteredSchema) -> Callable[[Any], None]:
        return validator_of(registered) if self._validates else _accept


def json_parser(schema: Schema) -> Callable[[bytes], Any]:
    """Return the parsing of JSON whose values have a schema; it raises DataError, ValueError."""
    decoder = json.JSONDecoder(
        parse_constant=_no_constant,
        parse_float=Decimal if needs_exact_decimals(schema) else None,
    )
    return lambda data: decoder.decode(data.decode())


def validator_of(registered: RegisteredSchema) -> Callable[[Any], None]:
    """Return the check that raises DataError for a JSON value that does not match a JSON Schema."""
    validators: Any = import_module("jsonschema.validators")
    referencing: Any = import_module("referencing")
    draft7 = import_module("referencing.jsonschema").DRAFT7
    resources = [
        (name, referencing.Resource.from_contents(json.loads(text), draft7))
        for name, text in registered.references
    ]
    document: Any = json.loads(registered.text)
    registry = referencing.Registry().with_resources(resources)
    validator = validators.validator_for(document)(document, registry=registry)

    def check(value: Any) -> None:
        for error in validator.iter_errors(value):
            raise DataError(f"{error.message} (at {error.json_path})")

    return check


def _accept(value: Any) -> None:
    """Accept any value."""
