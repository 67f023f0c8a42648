"""Schema languages: parse, print, validate and compare the schemas of the registry.

A format turns text and its resolved references into a :class:`ParsedSchema`, and a parsed schema
answers all questions that the registry has: the text to store, the text to hash, names, tags, and
whether it can read the data of another schema. Everything here is pure: no I/O, no clock, no
network, and bounded work for any input.

Data passes one way: text -> typed tree (reader) -> text (printer), and two trees -> a list of
:class:`Incompatibility` (compatibility). Each language is one package: ``avro``,
``json_schema``, ``protobuf``. They share ``schema_format`` and import nothing else of barnabas.
"""

from barnabas.registry.formats.schema_format import (
    CompatibilityPolicy,
    Incompatibility,
    ParsedSchema,
    ResolvedReference,
    SchemaEntity,
    SchemaError,
    SchemaFormat,
    SchemaTags,
    SchemaTooComplexError,
)
from barnabas.registry.formats.schema_types import SCHEMA_TYPES, format_of

__all__ = [
    "SCHEMA_TYPES",
    "CompatibilityPolicy",
    "Incompatibility",
    "ParsedSchema",
    "ResolvedReference",
    "SchemaEntity",
    "SchemaError",
    "SchemaFormat",
    "SchemaTags",
    "SchemaTooComplexError",
    "format_of",
]
