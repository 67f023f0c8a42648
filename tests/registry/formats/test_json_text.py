"""JSON Schema text: which schemas are accepted, references, canonical and normal form, tags."""

import copy
import json
import time
from typing import Any

import jsonschema
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
from barnabas.registry.formats.json_schema import JsonSchema
from tests.registry.formats.golden import found, pairs, registered, requests
from tests.registry.formats.json_schemas import json_schemas

DRAFTS = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
BASE = ResolvedReference(
    "base.json",
    "base",
    1,
    '{"$id":"http://x/base.json","type":"object","properties":{"a":{"type":"string"}}}',
)


def parse(schema: Any, *references: ResolvedReference) -> JsonSchema:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    schema = format_of("JSON").parse(text, references, is_new=True)
    assert isinstance(schema, JsonSchema)
    return schema


@pytest.mark.parametrize("subject", ["json-ok-true", "jcanon", "jcanon-n", "jref-base", "cj"])
def test_canonical_text_of_recorded_registration(subject: str) -> None:
    body, answer = registered(subject)
    schema = parse(body["schema"])
    text = schema.normalized().canonical_text if subject == "jcanon-n" else schema.canonical_text
    assert text == answer["schema"]


def test_recorded_bad_schemas_are_refused() -> None:
    bad = [r["body"]["schema"] for r in requests() if r["path"] == "/subjects/json-bad/versions"]
    assert len(bad) == 5
    for text in bad:
        with pytest.raises(SchemaError):
            parse(text)


@given(json_schemas())
@settings(max_examples=200, deadline=None)
def test_canonical_and_normal_text_are_fixed_points(schema: Any) -> None:
    first = parse(schema)
    assert parse(first.canonical_text) == first
    assert first.canonical_text == json.dumps(schema, separators=(",", ":"))
    normal = first.normalized()
    assert parse(normal.canonical_text).normalized() == normal


def test_fractions_are_kept_as_they_are_written() -> None:
    text = '{"maximum":1.10,"minimum":1E+2,"multipleOf":0.01,"default":12345678901234567890.5}'
    assert parse(text).canonical_text == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "5",
        "null",
        '"string"',
        "[]",
        "NaN",
        '{"maximum":Infinity}',
        '{"maximum":1e999}',
        '{"title":"\\ud800"}',
        '{"type":"nope"}',
        '{"pattern":"("}',
        '{"patternProperties":{"(":{}}}',
        '{"properties":{"a":5}}',
        '{"$ref":"#/definitions/none"}',
        '{"$ref":"other.json"}',
        '{"$ref":"http://localhost:1/x.json"}',
        '{"$ref":"#anchor"}',
        '{"definitions":{"a":{"type":1}}}',
    ],
)
def test_bad_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse(text)


KEYWORDS = st.sampled_from(
    [
        *("type", "enum", "properties", "required", "items", "additionalProperties", "not"),
        *("allOf", "maxLength", "maximum", "multipleOf", "uniqueItems", "pattern", "title"),
        *("exclusiveMinimum", "minItems", "patternProperties", "dependencies", "contains"),
        *("prefixItems", "dependentRequired", "dependentSchemas", "unevaluatedItems", "if"),
    ]
)
VALUES = st.sampled_from(
    [
        *({}, {"a": {}}, {"a": True}, {"a": ["b"]}, {"a": 5}, {"a": []}, [], [{}], [True], [5]),
        *(["string"], ["string", "string"], ["nope"], "string", "nope", 0, 1, -1, 1.5, True, None),
    ]
)


def metaschema(draft: str) -> Any:
    """Return the meta-schema, in draft 4 with the three liberties of the Java registry."""
    schema = copy.deepcopy(DRAFTS[draft].META_SCHEMA)
    if "draft-04" in draft:
        schema["type"] = ["object", "boolean"]
        schema["dependencies"] = {}
        del schema["properties"]["enum"]["uniqueItems"]
    return schema


@given(st.sampled_from(sorted(DRAFTS)), st.dictionaries(KEYWORDS, VALUES, max_size=3))
@settings(max_examples=1000, deadline=None)
def test_schema_is_accepted_when_its_metaschema_accepts_it(
    draft: str, keywords: dict[str, Any]
) -> None:
    schema = {"$schema": draft, **keywords}
    is_valid = DRAFTS[draft](metaschema(draft)).is_valid(schema)
    try:
        parse(schema)
    except SchemaError:
        assert not is_valid
    else:
        assert is_valid


def test_references_are_found_by_name_relative_name_and_id() -> None:
    for reference in ("base.json", "http://x/base.json", "base.json#/properties/a"):
        schema = parse({"properties": {"b": {"$ref": reference}}}, BASE)
        changed = ResolvedReference("base.json", "base", 2, BASE.text.replace("string", "number"))
        other = parse({"properties": {"b": {"$ref": reference}}}, changed)
        path = "#/properties/b" + ("" if "#" in reference else "/properties/a")
        assert found(other.check_reads(schema)) == [("TYPE_CHANGED", path)]
    relative = parse({"$id": "http://y/user.json", "$ref": "base.json"}, BASE)
    assert relative.used_references == {"base.json"}
    assert parse({"type": "string"}, BASE).used_references == frozenset()


def test_references_inside_of_one_text_are_followed() -> None:
    schema = {
        "$id": "http://x/root.json",
        "definitions": {
            "a": {"$id": "#here", "type": "string"},
            "b": {"$id": "sub/b.json", "definitions": {"c": {"type": "number"}}},
        },
        "properties": {
            "p": {"$ref": "#here"},
            "q": {"$ref": "sub/b.json#/definitions/c"},
            "r": {"$ref": "#/definitions/a"},
        },
    }
    other = {"properties": {name: {"type": "boolean"} for name in "pqr"}}
    assert found(parse(other).check_reads(parse(schema))) == [
        ("TYPE_CHANGED", f"#/properties/{name}") for name in "pqr"
    ]


@pytest.mark.parametrize("draft", sorted(DRAFTS))
def test_metaschema_can_be_referred_to(draft: str) -> None:
    schema = parse({"properties": {"schema": {"$ref": draft}}})
    assert schema.check_reads(schema) == []
    with pytest.raises(SchemaError):
        parse({"$ref": draft.replace("draft", "draft-x")})


def test_siblings_of_a_reference_count_from_2019_on_only() -> None:
    def schema(draft: str) -> dict[str, Any]:
        definitions = {"s": {"type": "string"}}
        ref = {"$ref": "#/definitions/s", "maxLength": 5}
        return {"$schema": draft, "definitions": definitions, "properties": {"a": ref}}

    for draft, count in (
        ("http://json-schema.org/draft-07/schema#", 0),
        ("https://json-schema.org/draft/2019-09/schema", 1),
    ):
        new = schema(draft)
        old = json.loads(json.dumps(new).replace('"maxLength": 5', '"title": "t"'))
        assert len(parse(new).check_reads(parse(old))) == count


def test_reference_to_itself_only_takes_every_value() -> None:
    loop = {"definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}}
    schema = parse({**loop, "$ref": "#/definitions/a"})
    assert schema.check_reads(parse({"type": "string"})) == []


def test_name_and_fields_are_those_of_the_root() -> None:
    schema = parse({"title": "T", "properties": {"x": {}}})
    assert (schema.name, schema.top_level_fields) == ("T", {"x"})
    assert (parse("true").name, parse("true").top_level_fields) == (None, frozenset())


def test_tags_are_added_and_removed() -> None:
    text = '{"properties":{"a":{"type":"string"},"b":{"items":{"properties":{"c":{}}}}}}'
    deep = SchemaTags(SchemaEntity("object.b.array.object.c", "sr_field"), ("PII",))
    root = SchemaTags(SchemaEntity("object", "sr_record"), ("T", "U"))
    tagged = parse(text).with_tags([deep, root], [])
    assert tagged.tags() == (root, deep)
    assert '"c":{"confluent:tags":["PII"]}' in tagged.canonical_text
    assert tagged.with_tags([], [deep, root]).canonical_text == text
    with pytest.raises(SchemaError, match="the schema has no field with the entityPath"):
        tagged.with_tags([SchemaTags(SchemaEntity("object.z", "sr_field"), ("PII",))], [])


@pytest.mark.parametrize(
    "text",
    [
        '{"not":' * 200 + "{}" + "}" * 200,
        "[" * 500_000,
        '{"a":' * 150_000,
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(SchemaTooComplexError):
        parse(text)


BIG = 5_000


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{i}": {"type": "string", "pattern": f"a{i}"} for i in range(BIG)}},
        {"properties": {f"p{i}": {"$ref": "#"} for i in range(BIG)}},
        {
            "definitions": {f"d{i}": {"$ref": f"#/definitions/d{i + 1}"} for i in range(BIG)}
            | {f"d{BIG}": {}},
            "properties": {f"p{i}": {"$ref": "#/definitions/d0"} for i in range(BIG)},
        },
        {"anyOf": [{"enum": [[i], {"a": i}]} for i in range(BIG)]},
        {"definitions": {f"d{i}": {"$id": f"http://x/{i}"} for i in range(BIG)}},
    ],
)
def test_large_schema_is_read_and_compared_in_bounded_time(schema: Any) -> None:
    text = json.dumps(schema)
    start = time.process_time()
    assert parse(text).check_reads(parse(text)) == []
    assert time.process_time() - start < 10


MUTATIONS = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from([*'{}[]",:\\ 0aN-\n\x00é', "null", "$ref"])),
    min_size=1,
    max_size=4,
)


@given(st.sampled_from(range(300)), MUTATIONS)
@settings(max_examples=500, deadline=None)
def test_mutated_schema_is_read_or_refused(index: int, mutations: list[tuple[int, str]]) -> None:
    original = text = pairs("JSON")[index]["new"]
    for position, insert in mutations:
        position %= len(text)
        text = text[:position] + insert + text[position + (position % 3) :]
    try:
        schema = parse(text)
        before = parse(original)
    except SchemaError:
        return
    assert parse(schema.canonical_text) == schema
    schema.check_reads(before)
    before.check_reads(schema)
