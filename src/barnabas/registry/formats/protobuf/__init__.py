"""Protobuf schemas: text and serialized descriptors, Java's canonical text, compatibility.

``proto_parser`` turns text into a tree (``proto_types``), ``proto_printer`` writes it.
``proto_names`` resolves the names of types, those of well-known imports included;
``proto_normal`` builds the normal form, ``proto_descriptor`` reads and writes descriptors,
``proto_compatibility`` compares two trees, and ``proto_schema`` offers all of it to the registry.
"""

from barnabas.registry.formats.protobuf.proto_schema import ProtobufFormat, ProtobufSchema

__all__ = ["ProtobufFormat", "ProtobufSchema"]
