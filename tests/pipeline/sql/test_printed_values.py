"""Keys and values of PRINT: decoded by the registry, as text, or as digits."""

import json

import pytest

from barnabas.pipeline.sql.shell.printed_values import PrintedValues
from tests.pipeline.http_answers import serving

AVRO = {
    "schemaType": "AVRO",
    "schema": '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}',
}
PROTOBUF = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message M { string b = 1; }'}
JSON = {"schemaType": "JSON", "schema": '{"type": "object"}'}
FORMS = {"AVRO": AVRO, "PROTOBUF": PROTOBUF, "JSON": JSON}
PREFIX = b"\0\0\0\0\7"


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("AVRO", b"\x54", '{"a": 42}'),
        ("PROTOBUF", b"\0\x0a\x02\xc3\xa9", '{"b": "é"}'),
        ("JSON", b'{"c":1}', '{"c": 1}'),
    ],
)
def test_value_with_the_id_of_a_schema_is_decoded(kind: str, data: bytes, text: str) -> None:
    body = json.dumps(FORMS[kind]).encode()
    answers = {"/schemas/ids/7": (200, {"Content-Type": "application/json"}, body)}
    with serving(answers) as (url, seen):
        values = PrintedValues(url)
        assert [values.text(PREFIX + data) for _ in range(2)] == [text, text]
        assert len(seen) == 1
        assert PrintedValues("").text(PREFIX + data).startswith("0x0000000007")


def test_value_that_no_schema_fits_is_digits() -> None:
    body = json.dumps(AVRO).encode()
    answers = {"/schemas/ids/7": (200, {"Content-Type": "application/json"}, body)}
    with serving(answers) as (url, _):
        values = PrintedValues(url)
        assert values.text(PREFIX + b"\x54\x54") == "0x00000000075454"
        assert values.text(b"\0\0\0\0\x08\x54") == "0x000000000854"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "<null>"),
        (b"", ""),
        ("é\n".encode(), "é\n"),
        (b"\x01a", "0x0161"),
        (b"\xff", "0xff"),
        (b"a" * 16_385, f"{'a' * 16_384}.. (16385 bytes)"),
    ],
)
def test_other_values_are_texts_or_digits(data: bytes | None, text: str) -> None:
    assert PrintedValues("").text(data) == text
