"""Values of records that carry a schema's id: framing, and codecs for Avro, JSON and Protobuf.

Used by the command line and the console, not by the server. A value is decoded to plain JSON and
encoded from it. Everything here is pure: the schemas are given, with the texts that they refer to.
"""
