"""JSON Schema verdicts: recorded answers, soundness, policies, bounds on the work."""

import json
import time
from contextlib import suppress
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from barnabas.registry.formats import CompatibilityPolicy, SchemaError, SchemaTooComplexError
from barnabas.registry.formats.java_hash_order import hash_order
from barnabas.registry.formats.json_schema import JsonSchema, JsonSchemaFormat
from tests.registry.formats.golden import found, pairs, reasons, requests
from tests.registry.formats.json_schemas import JSON_VALUES, json_schemas, sound_pairs

DRAFT_2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def parse(schema: Any) -> JsonSchema:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return JsonSchemaFormat().parse(text, is_new=True)


def check(old: Any, new: Any, policy: str = "STRICT") -> list[tuple[str, str]]:
    return found(parse(new).check_reads(parse(old), CompatibilityPolicy(policy)))


@pytest.mark.parametrize("index", range(len(pairs("JSON"))))
def test_recorded_pair_has_the_recorded_verdict_and_reasons(index: int) -> None:
    pair = pairs("JSON")[index]
    if pair["old_status"] != 200:
        with pytest.raises(SchemaError):
            parse(pair["old"])
        return
    old = parse(pair["old"])
    assert old.canonical_text == pair["old_canonical"]
    try:
        new = parse(pair["new"])
    except SchemaError:
        assert (pair["backward"]["is_compatible"], pair["backward"]["reasons"]) == (False, [])
        return
    for answer, reader, writer in (
        (pair["backward"], new, old),
        (pair["forward"], old, new),
    ):
        got = found(reader.check_reads(writer))
        assert got == reasons(answer)
        assert (not got) == answer["is_compatible"]


def test_recorded_requests_have_the_recorded_answers() -> None:
    level, policy, checked = "", "STRICT", 0
    registration = next(r for r in requests() if r["path"] == "/subjects/cj/versions")
    old = parse(registration["body"]["schema"])
    for request in requests():
        if request["method"] == "PUT" and request["path"] == "/config/cj":
            level = request["body"].get("compatibility", level)
            policy = request["body"].get("compatibilityPolicy", policy)
        if not request["path"].startswith("/compatibility/subjects/cj/") or not level:
            continue
        new = parse(request["body"]["schema"])
        how = CompatibilityPolicy(policy)
        got = old.check_reads(new, how) if level in ("FORWARD", "FULL") else []
        got += new.check_reads(old, how) if level in ("BACKWARD", "FULL") else []
        assert found(got) == reasons(request["answer"])
        checked += 1
    assert (checked > 15, policy) == (True, "LENIENT")


@given(json_schemas())
@settings(max_examples=200, deadline=None)
def test_schema_takes_its_own_values(schema: Any) -> None:
    assert check(schema, schema) == []


@given(sound_pairs())
@settings(max_examples=300, deadline=None)
def test_compatible_schema_takes_what_the_old_one_took(pair: tuple[Any, Any]) -> None:
    old, new = pair
    if check(old, new):
        return
    is_old, is_new = (jsonschema.Draft7Validator(schema).is_valid for schema in (old, new))
    assert [v for v in JSON_VALUES if is_old(v) and not is_new(v)] == []


@given(json_schemas())
@settings(max_examples=100, deadline=None)
def test_optional_property_may_be_added_to_a_closed_object(schema: Any) -> None:
    old = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    new = {**old, "properties": {**old["properties"], "b": schema}}
    assert check(old, new) == []


NUMBER, STRING = {"type": "number"}, {"type": "string"}
OPEN = {"type": "object", "properties": {"a": STRING}}
CLOSED = {**OPEN, "additionalProperties": False}
TUPLE = {"type": "array", "items": [STRING, NUMBER]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (False, STRING, []),
        (STRING, True, []),
        (True, STRING, [("TYPE_CHANGED", "#/")]),
        (STRING, False, [("TYPE_CHANGED", "#/")]),
        ({"type": "integer"}, NUMBER, []),
        (NUMBER, {"type": "integer"}, [("TYPE_NARROWED", "#/")]),
        (STRING, {**STRING, "pattern": "a"}, [("PATTERN_ADDED", "#/pattern")]),
        ({**STRING, "pattern": "a"}, STRING, []),
        ({"enum": [1, 2]}, {"enum": [1, 2, 3]}, []),
        ({"enum": [1, 2]}, {"enum": [1]}, [("ENUM_ARRAY_NARROWED", "#/enum")]),
        ({"enum": [1, 2]}, {"enum": [1, 3]}, [("ENUM_ARRAY_CHANGED", "#/enum")]),
        ({"enum": [1]}, {"enum": [True, 1.0]}, []),
        ({"const": 1}, {"const": 2}, [("ENUM_ARRAY_CHANGED", "#/const")]),
        ({**STRING, "enum": ["a"]}, STRING, []),
        ({"multipleOf": 4}, {"multipleOf": 2}, []),
        ({"multipleOf": 2}, {"multipleOf": 4}, [("MULTIPLE_OF_EXPANDED", "#/multipleOf")]),
        ({"multipleOf": 0.3}, {"multipleOf": 0.1}, []),
        (
            {"maximum": 5},
            {"exclusiveMaximum": 5},
            [("EXCLUSIVE_MAXIMUM_ADDED", "#/exclusiveMaximum")],
        ),
        ({"exclusiveMaximum": 5}, {"exclusiveMaximum": 6}, []),
        (
            {"exclusiveMaximum": 6},
            {"exclusiveMaximum": 5},
            [("EXCLUSIVE_MAXIMUM_DECREASED", "#/exclusiveMaximum")],
        ),
        ({"not": NUMBER}, {"not": {"type": "integer"}}, []),
        ({"oneOf": [STRING]}, {"oneOf": [NUMBER, STRING]}, []),
        ({"allOf": [STRING, NUMBER]}, {"anyOf": [STRING]}, []),
        (
            {"anyOf": [STRING, NUMBER]},
            {"allOf": [STRING, NUMBER]},
            [("COMBINED_TYPE_CHANGED", "#/")],
        ),
        ({"allOf": [STRING]}, {"allOf": [STRING, STRING]}, []),
        (STRING, {"oneOf": [NUMBER, STRING]}, []),
        (CLOSED, OPEN, []),
        (OPEN, CLOSED, [("ADDITIONAL_PROPERTIES_REMOVED", "#/additionalProperties")]),
        (OPEN, {"type": "object"}, []),
        (
            CLOSED,
            {"type": "object", "additionalProperties": False},
            [("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", "#/properties/a")],
        ),
        (
            {"type": "object"},
            OPEN,
            [("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "#/properties/a")],
        ),
        (
            {"type": "object"},
            {"properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"]},
            [("REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL", "#/properties/a")],
        ),
        (
            {"type": "object"},
            {**OPEN, "required": ["a"]},
            [("REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "#/properties/a")],
        ),
        (OPEN, {**OPEN, "required": ["a"]}, [("REQUIRED_ATTRIBUTE_ADDED", "#/required/a")]),
        (
            {"dependencies": {"a": ["b", "c"]}},
            {"dependencies": {"a": ["b"]}},
            [],
        ),
        (
            {"dependencies": {"a": ["b"]}},
            {"dependencies": {"a": ["c"], "b": ["c"], "c": STRING}},
            [
                ("DEPENDENCY_ARRAY_CHANGED", "#/dependencies/a"),
                ("DEPENDENCY_ARRAY_ADDED", "#/dependencies/b"),
                ("DEPENDENCY_SCHEMA_ADDED", "#/dependencies/c"),
            ],
        ),
        (
            {"dependencies": {"a": ["b"]}},
            {"dependencies": {"a": ["b", "c"]}},
            [("DEPENDENCY_ARRAY_EXTENDED", "#/dependencies/a")],
        ),
        (
            {"patternProperties": {"^s": STRING}, "additionalProperties": False},
            {
                "patternProperties": {"^s": STRING},
                "properties": {"s1": STRING, "s2": NUMBER},
                "additionalProperties": False,
            },
            [
                ("TYPE_CHANGED", "#/properties/s2"),
                ("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "#/properties/s2"),
            ],
        ),
        (TUPLE, {**TUPLE, "items": [STRING]}, []),
        (
            {**TUPLE, "items": [STRING]},
            TUPLE,
            [("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", "#/items/1")],
        ),
        (
            {**TUPLE, "additionalItems": False},
            {"type": "array", "items": [STRING], "additionalItems": False},
            [("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", "#/items/1")],
        ),
        (
            {**DRAFT_2020, "prefixItems": [STRING, NUMBER], "items": NUMBER},
            {**DRAFT_2020, "prefixItems": [STRING], "items": STRING},
            [
                ("TYPE_CHANGED", "#/items/1"),
                ("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "#/items/1"),
                ("TYPE_CHANGED", "#/additionalItems"),
            ],
        ),
        (
            {**DRAFT_2020, "properties": {}, "unevaluatedProperties": True},
            {**DRAFT_2020, "properties": {}, "unevaluatedProperties": False},
            [("UNEVALUATED_PROPERTIES_REMOVED", "#/unevaluatedProperties")],
        ),
        ({"uniqueItems": True}, {"uniqueItems": False}, []),
        (
            {"items": STRING},
            {"items": STRING, "uniqueItems": True},
            [("UNIQUE_ITEMS_ADDED", "#/uniqueItems")],
        ),
        (STRING, {**STRING, "connect.type": "bytes"}, [("TYPE_CHANGED", "#/")]),
        (
            {"if": STRING, "then": {"maxLength": 5}},
            {"if": STRING, "then": {"maxLength": 4}},
            [("MAX_LENGTH_DECREASED", "#/then/maxLength")],
        ),
        (
            {"maximum": 5, "$schema": "http://json-schema.org/draft-04/schema#"},
            {
                "maximum": 5,
                "exclusiveMaximum": True,
                "$schema": "http://json-schema.org/draft-04/schema#",
            },
            [("EXCLUSIVE_MAXIMUM_ADDED", "#/exclusiveMaximum")],
        ),
    ],
)
def test_change_is_listed_by_rule_and_path(
    old: Any, new: Any, expected: list[tuple[str, str]]
) -> None:
    assert check(old, new) == expected


def test_lenient_policy_accepts_changes_of_the_content_model() -> None:
    lenient = CompatibilityPolicy.LENIENT.value
    assert check(OPEN, CLOSED, lenient) == []
    assert check({"type": "object"}, OPEN, lenient) == []
    assert check(CLOSED, {"type": "object", "additionalProperties": False}, lenient) == []
    assert check(OPEN, {**OPEN, "additionalProperties": STRING}, lenient) == []
    assert check(OPEN, {**OPEN, "required": ["a"]}, lenient) != []


def test_reasons_are_listed_in_the_order_of_a_java_hash_set() -> None:
    assert hash_order(["n7", "p0"], ["n6", "n2"]) == ["p0", "n2", "n6", "n7"]
    assert hash_order(["b", "a"], ["c"]) == ["a", "b", "c"]
    assert hash_order(["Aa", "BB"], []) == ["Aa", "BB"]
    assert hash_order(["BB", "Aa"], []) == ["BB", "Aa"]


def recursive(leaf: str) -> dict[str, Any]:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/definitions/n"}, "v": {"type": leaf}},
    }
    return {"definitions": {"n": node}, "$ref": "#/definitions/n"}


def test_recursive_schemas_are_compared_without_end() -> None:
    assert check(recursive("string"), recursive("string")) == []
    assert check(recursive("string"), recursive("number")) == [("TYPE_CHANGED", "#/properties/v")]


def test_verdict_of_a_recursive_branch_does_not_rest_on_a_wrong_assumption() -> None:
    """Inside of the pair (n, n) the pair (m, m) looks compatible, but n itself is not."""

    def schema(leaf: str) -> dict[str, Any]:
        m = {"type": "object", "properties": {"n": {"$ref": "#/definitions/n"}}}
        n = {
            "type": "object",
            "properties": {"m": {"$ref": "#/definitions/m"}, "v": {"type": leaf}},
        }
        branches = [{"$ref": "#/definitions/n"}, {"$ref": "#/definitions/m"}]
        return {"definitions": {"m": m, "n": n}, "anyOf": branches}

    rules = [rule for rule, _ in check(schema("string"), schema("number"))]
    assert rules == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]


def web(leaf: str, size: int = 40) -> dict[str, Any]:
    """Return definitions that refer to each other so that naive comparison is exponential."""

    def ref(index: int) -> dict[str, Any]:
        return {"$ref": f"#/definitions/d{index % size}"}

    definitions = {
        f"d{i}": {
            "anyOf": [
                {"properties": {"a": ref(i + 1), "b": ref(i * 7)}, "maxProperties": i},
                {"items": ref(i * 3), "maxItems": i},
            ]
        }
        for i in range(size)
    }
    definitions["d0"] = {"type": leaf}
    return {"definitions": definitions, **ref(1)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (web("string"), web("number")),
        (web("string"), web("string")),
        (
            {"oneOf": [{**STRING, "maxLength": i} for i in range(2, 800)]},
            {"oneOf": [{**STRING, "maxLength": i} for i in range(1, 799)]},
        ),
        (
            {"anyOf": [{"const": i} for i in range(2000)]},
            {"anyOf": [{"const": -i} for i in range(2000)]},
        ),
    ],
)
def test_hard_comparison_ends_in_bounded_time(old: Any, new: Any) -> None:
    old_schema, new_schema = parse(old), parse(new)
    start = time.process_time()
    with suppress(SchemaTooComplexError):
        new_schema.check_reads(old_schema)
    assert time.process_time() - start < 10


def test_too_many_steps_are_refused_as_too_complex() -> None:
    branches = [{"const": i} for i in range(700)]
    with pytest.raises(SchemaTooComplexError):
        check({"anyOf": branches}, {"anyOf": branches[::-1]})


def test_every_reason_has_a_hint() -> None:
    texts = set()
    for pair in pairs("JSON"):
        if pair["backward"] and (pair["backward"]["reasons"]):
            for reason in parse(pair["new"]).check_reads(parse(pair["old"])):
                texts.add(reason.message())
                assert reason.details()["hint"]
    assert any("path '#/additionalProperties'" in text for text in texts)


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        ({"const": 1}, {"const": 1}, []),
        ({"const": 1}, {"const": 2}, [("ENUM_ARRAY_CHANGED", "#/const")]),
        ({"const": 1}, {"enum": [1, 2]}, [("TYPE_CHANGED", "#/")]),
        ({"enum": [1]}, {"const": 1}, [("TYPE_CHANGED", "#/")]),
        ({"const": 1}, {}, []),
    ],
)
def test_const_is_compared_with_const_alone(
    old: Any, new: Any, rules: list[tuple[str, str]]
) -> None:
    assert check(old, new) == rules
