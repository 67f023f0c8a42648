"""JSON schemas of the drafts 4, 6, 7, 2019-09 and 2020-12.

``json_reader`` turns values of JSON into a typed tree (``json_types``), after ``json_shapes`` has
checked the keywords; ``json_references`` resolves references without any I/O.
``json_compatibility`` compares two trees, with one module each for objects, arrays and
combinations, and ``json_comparison`` bounds the work. ``json_schema_format`` offers all of it to
the registry.
"""

from barnabas.registry.formats.json_schema.json_schema_format import JsonSchema, JsonSchemaFormat

__all__ = ["JsonSchema", "JsonSchemaFormat"]
