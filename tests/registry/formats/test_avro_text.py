"""Avro text: which schemas are accepted, canonical, resolved and normal form, names, tags."""

import json
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
from barnabas.registry.formats.avro import AvroFormat, AvroSchema
from tests.registry.formats.avro_schemas import avro_schemas
from tests.registry.formats.golden import pairs, registered, requests

BASE = ResolvedReference(
    "r.Base",
    "base",
    1,
    '{"type":"record","name":"Base","namespace":"r","fields":[{"name":"x","type":"string"}]}',
)


def parse(text: str, *references: ResolvedReference, is_new: bool = True) -> AvroSchema:
    return AvroFormat().parse(text, references, is_new=is_new)


def canonical(schema: Any) -> str:
    return parse(json.dumps(schema)).canonical_text


def test_format_of_returns_the_avro_format() -> None:
    assert format_of("AVRO").schema_type == "AVRO"
    with pytest.raises(KeyError):
        format_of("avro")


def test_canonical_text_of_recorded_pairs() -> None:
    for pair in pairs("AVRO"):
        assert parse(pair["old"]).canonical_text == pair["old_canonical"]


@pytest.mark.parametrize("subject", ["canon", "canon2", "canon3"])
def test_canonical_text_of_recorded_registration(subject: str) -> None:
    body, answer = registered(subject)
    schema = parse(body["schema"])
    text = schema.normalized().canonical_text if subject == "canon3" else schema.canonical_text
    assert text == answer["schema"]


def test_recorded_bad_schemas_are_refused() -> None:
    bad = [
        r["body"]["schema"]
        for r in requests()
        if r["path"] == "/subjects/bad/versions"
        and r["status"] == 422
        and "schema" in r["body"]
        and "schemaType" not in r["body"]
    ]
    assert len(bad) > 5
    for text in bad:
        with pytest.raises(SchemaError):
            parse(text if isinstance(text, str) else json.dumps(text))


@given(avro_schemas())
@settings(max_examples=200, deadline=None)
def test_canonical_and_normal_text_are_fixed_points(schema: Any) -> None:
    first = parse(json.dumps(schema))
    assert parse(first.canonical_text).canonical_text == first.canonical_text
    normal = first.normalized()
    assert normal.normalized() == normal
    assert not normal.check_reads(first)
    assert not first.check_reads(normal)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, '"string"'),
        ({"type": "string", "avro.java.string": "String"}, None),
        (["null", {"type": "int"}], '["null","int"]'),
        (
            {"fields": [], "name": "a.b.R", "type": "record"},
            '{"type":"record","name":"R","namespace":"a.b","fields":[]}',
        ),
        (
            {"type": "error", "name": "E", "namespace": "", "fields": []},
            '{"type":"error","name":"E","fields":[]}',
        ),
        (
            {"size": 2, "aliases": ["O", "x.P", "O"], "p": 1, "name": "n.F", "type": "fixed"},
            '{"type":"fixed","name":"F","namespace":"n","size":2,"p":1,"aliases":["O","x.P"]}',
        ),
        (
            {"default": "A", "symbols": ["A"], "name": "E", "doc": "d", "type": "enum", "q": None},
            '{"type":"enum","name":"E","doc":"d","symbols":["A"],"default":"A","q":null}',
        ),
    ],
)
def test_canonical_text(schema: Any, text: str | None) -> None:
    assert canonical(schema) == (text or json.dumps(schema, separators=(",", ":")))


def test_namespace_is_written_where_it_changes_only() -> None:
    inner = {"type": "fixed", "name": "F", "namespace": "", "size": 1}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": "F"}, {"name": "c", "type": "R"}]
    assert canonical({"type": "record", "name": "n.R", "fields": fields}) == (
        '{"type":"record","name":"R","namespace":"n","fields":['
        '{"name":"a","type":{"type":"fixed","name":"F","namespace":"","size":1}},'
        '{"name":"b","type":"F"},{"name":"c","type":"R"}]}'
    )


def test_name_of_a_type_keyword_is_written_in_full() -> None:
    enum = {"type": "enum", "name": "record", "symbols": ["A"]}
    fields = [{"name": "a", "type": enum}, {"name": "b", "type": "n.record"}]
    text = canonical({"type": "record", "name": "R", "namespace": "n", "fields": fields})
    assert text.endswith('{"name":"b","type":"n.record"}]}')


def test_forward_reference_is_defined_where_it_is_first_used() -> None:
    later = {"type": "enum", "name": "E", "symbols": ["A"]}
    fields = [{"name": "a", "type": ["null", "E"]}, {"name": "b", "type": later}]
    assert canonical({"type": "record", "name": "R", "fields": fields}) == (
        '{"type":"record","name":"R","fields":['
        '{"name":"a","type":["null",{"type":"enum","name":"E","symbols":["A"]}]},'
        '{"name":"b","type":"E"}]}'
    )


def test_equal_definitions_of_one_name_are_accepted_and_others_refused() -> None:
    one, other = (f'{{"type":"fixed","name":"F","size":{size}}}' for size in (1, 2))
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":%s},{"name":"b","type":%s}]}'
    assert parse(text % (one, one)).canonical_text.endswith('{"name":"b","type":"F"}]}')
    with pytest.raises(SchemaError, match="cannot redefine F"):
        parse(text % (one, other))


def test_comments_are_allowed_outside_of_strings() -> None:
    assert parse('// a\n{"type": /* [[ */ "fixed", "name": "F", "size": 1, "u": "http://x"}')


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("1.0", "1.0"),
        ("1.10", "1.1"),
        ("1e7", "1.0E7"),
        ("123456789.5", "1.234567895E8"),
        ("0.001", "0.001"),
        ("0.0001", "1.0E-4"),
        ("-0.0", "-0.0"),
        ("1e300", "1.0E300"),
        ('"1.5f"', "1.5"),
        ('"NaN"', '"NaN"'),
        ("3", "3"),
    ],
)
def test_default_of_a_double_is_written_as_java_does(written: str, printed: str) -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":%s}]}'
    assert parse(text % written).canonical_text == text % printed


def test_control_characters_are_escaped_in_upper_case() -> None:
    text = '{"type":"fixed","name":"F","doc":"\\u001f\\n\\"é😀\\/","size":1}'
    assert parse(text).canonical_text == text.replace("1f", "1F").replace("\\/", "/")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "5",
        "null",
        "NaN",
        '"string" x',
        '"nope"',
        '{"type":"record","name":"R"}',
        '{"type":"record","fields":[]}',
        '{"type":"record","name":"","fields":[]}',
        '{"type":"record","name":"1a","fields":[]}',
        '{"type":"record","name":"n.","fields":[]}',
        '{"type":"record","name":"a..b.R","fields":[]}',
        '{"type":"record","name":"int","fields":[]}',
        '{"type":"record","name":"R","fields":[5]}',
        '{"type":"record","name":"R","fields":[{"name":"a"}]}',
        '{"type":"record","name":"R","fields":[{"type":"int"}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int","order":"up"}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
        '{"type":"record","name":"R","fields":[],"aliases":"A"}',
        '{"type":"record","name":"R","fields":[],"aliases":[1]}',
        '{"type":"record","name":"R","fields":[],"aliases":["a-b"]}',
        '{"type":"enum","name":"E"}',
        '{"type":"enum","name":"E","symbols":[1]}',
        '{"type":"enum","name":"E","symbols":["A","A"]}',
        '{"type":"enum","name":"E","symbols":["a-b"]}',
        '{"type":"enum","name":"E","symbols":["A"],"default":"B"}',
        '{"type":"fixed","name":"F"}',
        '{"type":"fixed","name":"F","size":-1}',
        '{"type":"fixed","name":"F","size":1.0}',
        '{"type":"fixed","name":"F","size":true}',
        '{"type":"fixed","name":"F","size":3000000000}',
        '{"type":"array"}',
        '{"type":"map"}',
        '{"type":["null"]}',
        '["int","int"]',
        '["int",["null"]]',
        '[{"type":"array","items":"int"},{"type":"array","items":"long"}]',
        '{"type":"fixed","name":"F","size":1,"p":"\\ud800"}',
        '{"type":"fixed","name":"F","size":1,"p":1e999}',
        '{"type":"fixed","name":"F","size":1,"p":' + "1" * 5000 + "}",
    ],
)
def test_bad_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse(text)


@pytest.mark.parametrize(
    ("avro_type", "good", "bad"),
    [
        ("int", [1, -(2**31)], [2**31, 1.0, "1", None, True]),
        ("long", [2**31, -(2**63)], [2**63, 1.5]),
        ("float", [1, 1.5], [True, None]),
        ("double", [1, 1.5, "1.5"], ["x", []]),
        ("boolean", [True], [1, "true"]),
        ("null", [None], [0]),
        ("string", ["s"], [5]),
        ("bytes", ["s"], [5]),
        (["null", "int"], [None, 1], ["x"]),
        ({"type": "array", "items": "int"}, [[], [1, 2]], [[""], {}]),
        ({"type": "map", "values": "int"}, [{}, {"a": 1}], [{"a": ""}, []]),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, ["A"], [1]),
        ({"type": "fixed", "name": "F", "size": 1}, ["A"], [1]),
        (
            {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]},
            [{"x": 1}],
            [{}, {"x": "y"}, []],
        ),
        (
            {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int", "default": 1}]},
            [{}],
            [{"x": None}],
        ),
    ],
)
def test_default_of_a_new_schema_must_fit_its_type(
    avro_type: Any, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        assert parse(with_default(avro_type, value))
    for value in bad:
        with pytest.raises(SchemaError, match="default"):
            parse(with_default(avro_type, value))
        if not (avro_type == "double" and value == "x"):
            assert parse(with_default(avro_type, value), is_new=False)


def with_default(avro_type: Any, value: Any) -> str:
    fields = [{"name": "a", "type": avro_type, "default": value}]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def test_default_that_needs_itself_is_refused() -> None:
    with pytest.raises(SchemaError, match="default"):
        parse(with_default("R", {}))


def test_references_are_names_in_canonical_text_and_written_out_in_resolved() -> None:
    body, answer = registered("ref-user")
    schema = parse(body["schema"], BASE)
    assert schema.canonical_text == answer["schema"]
    resolved = next(r for r in requests() if r["path"].endswith("?format=resolved"))
    assert schema.formatted("resolved") == resolved["answer"]["schema"]
    assert schema.formatted("nope") == schema.canonical_text
    assert schema.used_references == {"r.Base"}
    assert parse('"int"', BASE).used_references == frozenset()
    with pytest.raises(SchemaError, match="undefined name"):
        parse(body["schema"])


def test_normal_form_sorts_what_has_no_order() -> None:
    text = (
        '{"type":"record","name":"R","doc":"","z":1,"a":{"y":1,"x":[{"d":1,"c":2}]},"aliases":["Z","A"],'
        '"fields":[{"name":"f","type":{"type":"bytes","scale":2,"precision":4,"logicalType":"decimal"},'
        '"q":1,"b":2},{"name":"g","type":"double","default":1,"aliases":["z","y"]},'
        '{"name":"h","type":"float","default":0.1}]}'
    )
    assert parse(text).normalized().canonical_text == (
        '{"type":"record","name":"R","fields":[{"name":"f","type":{"type":"bytes",'
        '"logicalType":"decimal","precision":4,"scale":2},"b":2,"q":1},'
        '{"name":"g","type":"double","default":1.0,"aliases":["y","z"]},'
        '{"name":"h","type":"float","default":0.1}],'
        '"a":{"x":[{"c":2,"d":1}],"y":1},"z":1,"aliases":["A","Z"]}'
    )


def test_name_and_fields_are_those_of_the_root() -> None:
    schema = parse('{"type":"record","name":"a.R","fields":[{"name":"x","type":"int"}]}')
    assert (schema.name, schema.top_level_fields) == ("a.R", {"x"})
    assert (parse('"int"').name, parse('"int"').top_level_fields) == (None, frozenset())


def test_tags_are_added_and_removed() -> None:
    body, answer = registered("s1")
    field = SchemaEntity("A.a", "sr_field")
    tagged = parse(body["schema"]).with_tags([SchemaTags(field, ("PII",))], [])
    assert tagged.tags() == (SchemaTags(field, ("PII",)),)
    assert '"type":"string","confluent:tags":["PII"]}' in tagged.canonical_text
    more = tagged.with_tags([SchemaTags(SchemaEntity("A", "sr_record"), ("T",))], [])
    assert [t.entity.path for t in more.tags()] == ["A", "A.a"]
    back = tagged.with_tags([], [SchemaTags(field, ("PII",))])
    assert back.canonical_text == answer["schema"]
    with pytest.raises(SchemaError, match="the schema has no field with the entityPath"):
        tagged.with_tags([SchemaTags(SchemaEntity("A.b", "sr_field"), ("PII",))], [])


def test_schemas_are_equal_when_their_text_is() -> None:
    assert parse('"int"') == parse(' {"type":"int"}')
    assert parse('"int"') != parse('"long"')
    assert parse('"int"') != parse('"int"', BASE)
    assert len({parse('"int"'), parse('"int"')}) == 1


def test_deep_nesting_is_refused() -> None:
    deep = '{"type":"array","items":' * 200 + '"int"' + "}" * 200
    with pytest.raises(SchemaTooComplexError):
        parse(deep)
    chain = [
        {"type": "record", "name": f"R{i}", "fields": [{"name": "a", "type": f"R{i + 1}"}]}
        for i in range(200)
    ]
    with pytest.raises(SchemaTooComplexError):
        parse(json.dumps([*chain, {"type": "fixed", "name": "R200", "size": 1}]))


def test_text_of_many_quotes_is_read_in_linear_time() -> None:
    for text in ('"' + '\\"' * 500_000, "[" * 1_000_000, "//" * 500_000, '{"a":' * 200_000):
        with pytest.raises(SchemaError):
            parse(text)


MUTATIONS = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from([*'{}[]",:\\ 0aN-\n\x00é', "null"])),
    min_size=1,
    max_size=4,
)


@given(st.sampled_from(range(300)), MUTATIONS)
@settings(max_examples=500, deadline=None)
def test_mutated_schema_is_read_or_refused(index: int, mutations: list[tuple[int, str]]) -> None:
    text = pairs("AVRO")[index]["old"]
    for position, insert in mutations:
        position %= len(text)
        text = text[:position] + insert + text[position + (position % 3) :]
    try:
        schema = parse(text)
    except SchemaError:
        return
    assert parse(schema.canonical_text) == schema
