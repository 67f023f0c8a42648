"""Protobuf schemas: text and serialized descriptors, Java's canonical text, compatibility.

``proto_parser`` turns text into a tree (``proto_types``), ``proto_printer`` writes it,
``proto_compatibility`` compares two trees, and ``proto_schema`` offers all of it to the registry.
"""
