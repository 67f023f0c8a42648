"""The registered schema types and their formats.

A format is imported when it is first needed: a registry that holds only Avro schemas does not pay
for the libraries of JSON Schema.
"""

from functools import cache
from importlib import import_module

from barnabas.registry.formats.schema_format import SchemaFormat

# In the order in which GET /schemas/types lists them.
SCHEMA_TYPES = ("JSON", "PROTOBUF", "AVRO")

# Type -> module and class.
_FORMATS = {
    "AVRO": ("barnabas.registry.formats.avro", "AvroFormat"),
    "JSON": ("barnabas.registry.formats.json_schema", "JsonSchemaFormat"),
    "PROTOBUF": ("barnabas.registry.formats.protobuf", "ProtobufFormat"),
}


@cache
def format_of(schema_type: str) -> SchemaFormat:
    """Return the format of a schema type.

    Raises KeyError when the type is unknown. Types are case-sensitive.
    """
    module, name = _FORMATS[schema_type]
    return getattr(import_module(module), name)()
