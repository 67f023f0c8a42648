"""Protobuf verdicts: recorded answers, rules one by one, references."""

from typing import Any

import pytest
from hypothesis import given, settings

from barnabas.registry.formats import ResolvedReference
from barnabas.registry.formats.protobuf import ProtobufFormat, ProtobufSchema
from tests.registry.formats.golden import found, pairs, reasons, requests
from tests.registry.formats.proto_schemas import proto_schemas


def parse(text: str, *references: ResolvedReference) -> ProtobufSchema:
    return ProtobufFormat().parse(text, references, is_new=True)


def check(old: str, new: str) -> list[tuple[str, str]]:
    return found(parse(new).check_reads(parse(old)))


@pytest.mark.parametrize("index", range(len(pairs("PROTOBUF"))))
def test_recorded_pair_has_the_recorded_verdict_and_reasons(index: int) -> None:
    pair = pairs("PROTOBUF")[index]
    old, new = parse(pair["old"]), parse(pair["new"])
    for answer, reader, writer in (
        (pair["backward"], new, old),
        (pair["forward"], old, new),
    ):
        got = found(reader.check_reads(writer))
        assert got == reasons(answer)
        assert (not got) == answer["is_compatible"]


def test_recorded_requests_have_the_recorded_answers() -> None:
    level, checked = "", 0
    registration: Any = next(r for r in requests() if r["path"] == "/subjects/cp/versions")
    old = parse(registration["body"]["schema"])
    for request in requests():
        if request["method"] == "PUT" and request["path"] == "/config/cp":
            level = request["body"]["compatibility"]
        if not request["path"].startswith("/compatibility/subjects/cp/"):
            continue
        new = parse(request["body"]["schema"])
        got = old.check_reads(new) if level in ("FORWARD", "FULL") else []
        got += new.check_reads(old) if level in ("BACKWARD", "FULL") else []
        assert found(got) == reasons(request["answer"])
        checked += 1
    assert checked > 10


@given(proto_schemas())
@settings(max_examples=100, deadline=None)
def test_schema_reads_its_own_data(text: str) -> None:
    assert check(text, text) == []


@given(proto_schemas())
@settings(max_examples=100, deadline=None)
def test_field_may_be_added_and_removed(text: str) -> None:
    more = text.replace("message M0 {", "message M0 { string added = 99;")
    assert check(text, more) == check(more, text) == []


def m(body: str) -> str:
    return f'syntax = "proto3"; message M {{ {body} }} enum E {{ A = 0; }} message N {{}}'


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("int32 a = 1;", "int64 b = 1;", []),
        ("int32 a = 1;", "E a = 1;", []),
        ("string a = 1;", "repeated bytes a = 1;", []),
        ("optional int32 a = 1;", "int32 a = 1;", []),
        ("optional int32 a = 1;", "repeated int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED #/M/1"]),
        ("int32 a = 1;", "sint32 a = 1;", ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
        ("N a = 1;", "M a = 1;", ["FIELD_NAMED_TYPE_CHANGED #/M/1"]),
        ("N a = 1;", "bytes a = 1;", ["FIELD_KIND_CHANGED #/M/1"]),
        ("map<string, int32> a = 1;", "map<string, bool> a = 1;", []),
        (
            "map<string, int32> a = 1;",
            "map<string, string> a = 1;",
            ["FIELD_SCALAR_KIND_CHANGED #/M/1"],
        ),
        ("map<string, int32> a = 1;", "repeated N a = 1;", ["FIELD_KIND_CHANGED #/M/1"]),
        ("oneof o { int32 a = 1; int32 b = 2; }", "oneof p { int32 a = 1; int32 b = 2; }", []),
        ("oneof o { int32 a = 1; int32 b = 2; }", "", []),
        ("oneof o { int32 a = 1; int32 b = 2; }", "int32 a = 1; oneof o { int32 b = 2; }", []),
        (
            "oneof o { int32 a = 1; int32 b = 2; }",
            "oneof p { int32 a = 1; }",
            ["ONEOF_FIELD_REMOVED #/M/o/2"],
        ),
        ("int32 a = 1; int32 b = 2;", "int32 a = 1; oneof o { int32 b = 2; }", []),
        (
            "int32 a = 1; int32 b = 2;",
            "oneof o { int32 a = 1; int32 b = 2; }",
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o"],
        ),
        (
            "int32 a = 1; oneof o { int32 b = 2; }",
            "oneof o { int32 a = 1; string b = 2; }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/o", "FIELD_SCALAR_KIND_CHANGED #/M/o/2"],
        ),
        (
            "oneof o { int32 a = 1; } oneof p { int32 b = 2; }",
            "oneof q { int32 a = 1; int32 b = 2; }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/q"],
        ),
        (
            "message I { int32 a = 1; } message J {}",
            "message I { string a = 1; }",
            ["FIELD_SCALAR_KIND_CHANGED #/M/I/1", "MESSAGE_REMOVED #/M/J"],
        ),
    ],
)
def test_change_is_listed_by_rule_and_path(old: str, new: str, expected: list[str]) -> None:
    assert [" ".join(reason) for reason in check(m(old), m(new))] == expected


def test_required_fields_of_proto2_cannot_come_or_go() -> None:
    old, new = "message M { optional int32 a = 1; }", "message M { required int32 a = 1; }"
    assert check(old, new) == [("REQUIRED_FIELD_ADDED", "#/M/1")]
    assert check(new, old) == [("REQUIRED_FIELD_REMOVED", "#/M/1")]
    assert check("message M {}", new) == [("REQUIRED_FIELD_ADDED", "#/M/1")]
    assert check(new, "message M {}") == [("REQUIRED_FIELD_REMOVED", "#/M/1")]


def imported(version: int, fields: str) -> ProtobufSchema:
    text = f'syntax = "proto3"; package o; message T {{ {fields} }}'
    reference = ResolvedReference("o.proto", "o", version, text)
    return parse('import "o.proto"; message M { o.T a = 1; repeated o.T b = 2; }', reference)


def test_imported_messages_are_compared_by_content() -> None:
    old = imported(1, "int32 x = 1; T t = 2;")
    assert not imported(2, "int64 x = 1; T t = 2; bool y = 3;").check_reads(old)
    assert found(imported(2, "string x = 1; T t = 2;").check_reads(old)) == [
        ("FIELD_SCALAR_KIND_CHANGED", "#/T/1"),
        ("FIELD_NAMED_TYPE_CHANGED", "#/M/1"),
        ("FIELD_NAMED_TYPE_CHANGED", "#/M/2"),
    ]


def test_references_to_the_same_version_are_not_compared() -> None:
    old = imported(1, "int32 x = 1;")
    assert not imported(1, "string x = 1;").check_reads(old)
