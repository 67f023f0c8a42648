"""Avro schemas: Java's rules for names, canonical text and compatibility.

``avro_reader`` turns JSON into a typed tree (``avro_types``), ``avro_defaults`` checks default
values against it, ``avro_printer`` writes the canonical, resolved and normal form,
``avro_compatibility`` compares two trees, and ``avro_schema`` offers all of it to the registry.
"""

from barnabas.registry.formats.avro.avro_schema import AvroFormat, AvroSchema

__all__ = ["AvroFormat", "AvroSchema"]
