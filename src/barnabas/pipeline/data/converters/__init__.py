"""Converters: bytes of a topic to data and back, under the rules of Connect's own converters.

    converter_base          what all converters share
    primitive_converters    strings, bytes, booleans, numbers
    header_literals         headers as literals: Connect's default for headers
    json_converter          JSON with and without schemas
    json_schemas            schemas as JSON, with a cache
    json_readers            JSON values to data, by schema
    json_writers            data to JSON text, by schema
    avro_converter          Avro with a schema registry
    avro_schemas            Avro's schemas and Connect's
    avro_values             Avro's values and Connect's
    registry_base           what converters with a schema registry share
    protobuf_converter      Protobuf with a schema registry
    protobuf_files          texts of Protobuf to types of messages
    protobuf_schemas        types of messages as Connect's schemas
    protobuf_trees          Connect's schemas as files of Protobuf
    protobuf_values         messages and Connect's values
    json_schema_converter   JSON Schema with a schema registry
    json_schema_readers     JSON Schemas as Connect's
    json_schema_texts       Connect's schemas as JSON Schemas
    json_schema_values      JSON and Connect's values, strictly

A converter is for one side of one job. It keeps what it computed for a schema, so records of a
schema that was seen before cost only their own content.
"""
