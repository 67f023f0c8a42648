"""Protobuf text: which schemas are accepted, canonical, normal and serialized form, tags."""

import base64
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.registry.formats import (
    ResolvedReference,
    SchemaEntity,
    SchemaError,
    SchemaTags,
    SchemaTooComplexError,
    format_of,
)
from barnabas.registry.formats.protobuf import ProtobufSchema
from barnabas.registry.formats.protobuf.proto_schema import ProtobufFormat
from tests.registry.formats.golden import pairs, registered, requests
from tests.registry.formats.proto_schemas import proto_schemas

BASE = ResolvedReference(
    "base.proto", "base", 1, 'syntax = "proto3"; package r; message Base { string x = 1; }'
)


def parse(text: str, *references: ResolvedReference) -> ProtobufSchema:
    schema = format_of("PROTOBUF").parse(text, references, is_new=True)
    assert isinstance(schema, ProtobufSchema)
    return schema


def test_canonical_text_of_recorded_pairs() -> None:
    for pair in pairs("PROTOBUF"):
        assert parse(pair["old"]).canonical_text == pair["old_canonical"]


@pytest.mark.parametrize("subject", ["pcanon-opt", "pcanon", "p2canon", "pb64", "pref-base", "cp"])
def test_canonical_text_of_recorded_registration(subject: str) -> None:
    body, answer = registered(subject)
    assert parse(body["schema"]).canonical_text == answer["schema"]


def test_normal_text_of_recorded_registration() -> None:
    body, answer = registered("pcanon-n")
    assert parse(body["schema"]).normalized().canonical_text == answer["schema"]


@pytest.mark.parametrize("subject", ["pcanon", "p2canon", "pb64"])
def test_serialized_form_of_recorded_registration_is_equal_byte_for_byte(subject: str) -> None:
    body, _ = registered(subject)
    path = f"/subjects/{subject}/versions/latest?format=serialized"
    answer = next(r["answer"] for r in requests() if r["path"] == path)
    assert parse(body["schema"]).formatted("serialized") == answer["schema"]


def test_recorded_bad_schemas_are_refused() -> None:
    bad = [r for r in requests() if r["path"] == "/subjects/proto-bad/versions"]
    bad_texts = [r["body"]["schema"] for r in bad if r["status"] == 422]
    assert len(bad_texts) == 3
    for text in bad_texts:
        with pytest.raises(SchemaError):
            parse(text)


@given(proto_schemas())
@settings(max_examples=200, deadline=None)
def test_canonical_normal_and_serialized_form_are_fixed_points(text: str) -> None:
    schema = parse(text)
    assert parse(schema.canonical_text) == schema
    normal = schema.normalized()
    assert parse(normal.canonical_text).normalized() == normal
    assert not normal.check_reads(schema)
    assert not schema.check_reads(normal)
    again = parse(schema.formatted("serialized"))
    assert again.normalized() == normal
    assert again.formatted("serialized") == parse(again.canonical_text).formatted("serialized")


@given(proto_schemas())
@settings(max_examples=100, deadline=None)
def test_spaces_and_comments_do_not_count(text: str) -> None:
    spaced = text.replace(";", " ; // a\n /* b */ ").replace("{", " {\n")
    assert parse(spaced) == parse(text)


def test_parts_of_proto2_are_kept() -> None:
    text = (
        'syntax = "proto2";\n\nmessage M {\n  reserved 1 to max;\n\n'
        "  option deprecated = true;\n\n"
        "  optional bytes a = 010 [\n    deprecated = true,\n"
        '    default = "a\\\\\\n\\001"\n  ];\n\n'
        "  extensions 100 to max;\n\n  extend M {\n    optional int32 e = 0x64;\n  }\n}\n"
    )
    printed = parse(text).canonical_text
    assert printed == text.replace("010", "8").replace("0x64", "100")


def test_option_with_a_message_is_kept() -> None:
    text = 'option (o) = {\n  a: 1,\n  b: [\n    "x",\n    -inf\n  ],\n  c: {\n    d: E\n  }\n};\n'
    assert parse(text).canonical_text == text
    written = 'option (o) = { a: 1; b: ["x", -inf] c < d: E > };'
    assert parse(written).canonical_text == text


@pytest.mark.parametrize(
    "text",
    [
        "x",
        'syntax = "proto4";',
        "edition = 5;",
        'syntax = "proto3"',
        "message {}",
        "message M { int32 a = 0; }",
        "message M { int32 a = 1.5; }",
        "message M { int32 a = 536870912; }",
        "message M { int32 a; }",
        "message M { int32 = 1; }",
        "message M { map<int32> a = 1; }",
        "message M { oneof o { int32 a = 1;",
        "message M { reserved a; }",
        "enum E { A = B; }",
        "enum E { A = 0 [; }",
        "service S { rpc A B; }",
        "service S { rpc A (M) returns (M); }",
        "extend M { int32 a = 1; }",
        'import "a.proto";',
        "message M { Missing a = 1; }",
        "message M { .M.X a = 1; }",
        "message M { map<string, Missing> a = 1; }",
        'option a = "unclosed;',
        "message M { /* unclosed }",
        "message M { int32 a = 1; } \x00",
    ],
)
def test_bad_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse(text)


def test_error_names_line_and_column() -> None:
    with pytest.raises(SchemaError) as error:
        parse("message M {\n  int32 a;\n}")
    assert error.value.path == "2:10"


def test_names_are_resolved_from_the_innermost_scope() -> None:
    text = (
        "package p; message A { message B { enum C { X = 0; } C c = 1; B b = 2; A.B ab = 3; "
        ".p.A.B.C full = 4; p.A pa = 5; } B.C c = 1; } enum C { Y = 0; }"
    )
    normal = parse(text).normalized().canonical_text
    for line in (".p.A.B.C c = 1;", ".p.A.B b = 2;", ".p.A.B ab = 3;", ".p.A pa = 5;"):
        assert line in normal


def test_imports_are_references_or_well_known() -> None:
    text = (
        'syntax = "proto3"; package r; import "base.proto"; import "google/protobuf/struct.proto";'
        'import public "confluent/meta.proto"; message U { Base b = 1; google.protobuf.Value v = 2;'
        " google.protobuf.NullValue n = 3; }"
    )
    schema = parse(text, BASE)
    assert schema.used_references == {"base.proto"}
    assert "import public" in schema.canonical_text
    with pytest.raises(SchemaError, match=r"unknown import base\.proto"):
        parse(text)


def test_format_without_extensions_drops_custom_options() -> None:
    text = (
        "option (a) = 1; option java_package = 'j'; message M { option (b).c = 2; int32 f = 1 "
        "[(d) = 3, deprecated = true]; } enum E { option (e) = 4; X = 0 [(f) = 5]; }"
    )
    plain = parse(text).formatted("ignore_extensions")
    assert "(" not in plain
    assert "deprecated = true" in plain
    assert 'java_package = "j"' in plain


def test_base64_that_is_not_a_descriptor_is_refused() -> None:
    with pytest.raises(SchemaError):
        parse(base64.b64encode(b"\xf0\xff\xff").decode())


def test_name_and_fields_are_those_of_the_first_message() -> None:
    schema = parse("package p; enum E { X = 0; } message M { int32 a = 1; oneof o { E b = 2; } }")
    assert (schema.name, schema.top_level_fields) == ("p.M", {"a", "b"})
    assert (parse("enum E { X = 0; }").name, parse("").name) == ("E", None)


def test_tags_are_added_and_removed() -> None:
    schema = parse(
        "package p; message M { int32 a = 1; message N { int32 b = 1 [deprecated = true]; } }"
    )
    field = SchemaTags(SchemaEntity("p.M.N.b", "sr_field"), ("PII", "X"))
    record = SchemaTags(SchemaEntity("p.M", "sr_record"), ("T",))
    tagged = schema.with_tags([field, record], [])
    assert tagged.tags() == (record, field)
    assert parse(tagged.canonical_text) == tagged
    assert tagged.with_tags([], [field, record]) == schema
    with pytest.raises(SchemaError, match="the schema has no field with the entityPath"):
        schema.with_tags([SchemaTags(SchemaEntity("p.M.z", "sr_field"), ("PII",))], [])


@pytest.mark.parametrize(
    "text",
    [
        "message M { " * 100 + "}" * 100,
        "option a = " + "[" * 200,
        "option a = " + "{ a: " * 200,
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(SchemaTooComplexError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "message M { " + " ".join(f"int32 f{i} = {i};" for i in range(1, 20_000)) + "}",
        " ".join(f"message M{i} {{ M{i} a = 1; }}" for i in range(10_000)),
        'option a = "' + "\\" * 500_001,
        "/*" * 250_000,
        "a." * 250_000,
    ],
)
def test_large_text_is_read_in_bounded_time(text: str) -> None:
    start = time.process_time()
    try:
        schema = parse(text)
    except SchemaError:
        pass
    else:
        assert schema.check_reads(schema) == []
    assert time.process_time() - start < 10


MUTATIONS = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from([*'{}[]<>;="., \\0a-\n\x00é', "message "])),
    min_size=1,
    max_size=3,
)


@given(st.sampled_from(range(300)), MUTATIONS)
@settings(max_examples=500, deadline=None)
def test_mutated_schema_is_read_or_refused(index: int, mutations: list[tuple[int, str]]) -> None:
    original: Any = pairs("PROTOBUF")[index]["new"]
    text = original
    for position, insert in mutations:
        position %= len(text)
        text = text[:position] + insert + text[position + (position % 3) :]
    try:
        schema = parse(text)
    except SchemaError:
        return
    assert parse(schema.canonical_text) == schema
    schema.formatted("serialized")
    schema.check_reads(parse(original))


def test_schema_of_an_edition_is_refused_as_text_and_as_descriptor() -> None:
    from google.protobuf import descriptor_pb2

    descriptor = descriptor_pb2.FileDescriptorProto(name="f", syntax="editions", edition=1000)
    serialized = base64.b64encode(descriptor.SerializeToString()).decode()
    for text in ('edition = "2023"; message A { int32 a = 1; }', serialized):
        with pytest.raises(SchemaError, match="editions of Protobuf are not supported"):
            ProtobufFormat().parse(text)
