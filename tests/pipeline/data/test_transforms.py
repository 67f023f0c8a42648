"""Transformations and predicates by example; compat_tests compare them with Java's on thousands."""

from typing import Any

import pytest

from barnabas.pipeline.connect.builtin_plugins import BUILTIN_PLUGINS
from barnabas.pipeline.connect.plugin_registry import PluginKind, PluginRegistry
from barnabas.pipeline.connect.record_chain import build_record_chain
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.java_values import EpochMillis, Int8
from barnabas.pipeline.data.records import CREATE_TIME, Header, RawRecord, SinkRecord
from barnabas.pipeline.definitions.config_types import ConfigValueError

REGISTRY = PluginRegistry(BUILTIN_PLUGINS)
DAY_MS = 86_400_000


def record(value: Any, schema: s.Schema | None = None, *headers: Header) -> SinkRecord:
    return SinkRecord(
        "t-eu", 1, DAY_MS, None, None, schema, value, headers, 9, CREATE_TIME, ("t-eu", 1, 9)
    )


def transformed(name: str, subject: SinkRecord, **config: str) -> Any:
    class_name = f"org.apache.kafka.connect.transforms.{name}"
    transformation = REGISTRY.find(class_name, PluginKind.TRANSFORMATION).load()()
    transformation.configure({key.replace("_", "."): value for key, value in config.items()})
    return transformation.apply(subject)


@pytest.mark.parametrize(
    ("name", "config", "before", "after"),
    [
        ("Cast$Value", {"spec": "a:int8,b:string"}, {"a": "5", "b": 1.5}, {"a": 5, "b": "1.5"}),
        ("ExtractField$Value", {"field": "a"}, {"a": [1]}, [1]),
        ("Flatten$Value", {}, {"a": {"b": 1, "c": {"d": 2}}}, {"a.b": 1, "a.c.d": 2}),
        ("HoistField$Value", {"field": "x"}, 5, {"x": 5}),
        ("InsertField$Value", {"topic_field": "x!"}, {"a": 1}, {"a": 1, "x": "t-eu"}),
        ("MaskField$Value", {"fields": "a,b"}, {"a": 7, "b": "s"}, {"a": 0, "b": ""}),
        ("MaskField$Value", {"fields": "a", "replacement": "9"}, {"a": 7}, {"a": 9}),
        ("ReplaceField$Value", {"exclude": "a", "renames": "b:x"}, {"a": 1, "b": 2}, {"x": 2}),
        (
            "TimestampConverter$Value",
            {"field": "a", "target_type": "string", "format": "yyyy-MM-dd"},
            {"a": DAY_MS},
            {"a": "1970-01-02"},
        ),
    ],
)
def test_transform_schemaless_value_is_changed(
    name: str, config: dict[str, str], before: Any, after: Any
):
    found = transformed(name, record(before), **config)
    assert (found.value_schema, found.value) == (None, after)


def test_replace_field_of_two_renames_to_one_name_the_last_in_hash_order_counts():
    schema = s.struct_schema([("d.e", s.INT8)])
    found = transformed(
        "ReplaceField$Value", record(s.Struct(schema, [5]), schema), renames="d.e:a,a.b:a"
    )
    assert found.value.values == [5]


def test_replace_field_value_of_another_type_raises_data_error():
    schema = s.struct_schema([("b", s.STRING), ("a", s.INT64)])
    subject = record(s.Struct(schema, ["x", 1]), schema)
    with pytest.raises(ConnectError, match=r'INT64: class java.lang.String for field: "a"'):
        transformed("ReplaceField$Value", subject, include="a", renames="b:a")


def test_transform_original_record_is_unchanged():
    before = {"a": {"b": 1}}
    transformed("Flatten$Value", record(before))
    transformed("InsertField$Value", record(before), topic_field="x")
    assert before == {"a": {"b": 1}}


def test_cast_marks_the_width_of_schemaless_numbers():
    found = transformed("Cast$Value", record(300), spec="int8")
    assert found.value == 44
    assert type(found.value) is Int8


def test_cast_struct_keeps_optional_and_casts_default():
    schema = s.struct_schema([("a", s.with_default(s.OPTIONAL_INT32, 1))], name="n")
    found = transformed("Cast$Value", record(s.Struct(schema), schema), spec="a:string")
    assert found.value_schema.name == "n"
    assert found.value_schema.field("a").schema == s.Schema(s.Type.STRING, True, default="1")
    assert found.value.get("a") == "1"


def test_transform_derived_schema_is_kept():
    schema = s.struct_schema([("a", s.INT8)])
    transformation = REGISTRY.find(
        "org.apache.kafka.connect.transforms.HoistField$Value", PluginKind.TRANSFORMATION
    ).load()()
    transformation.configure({"field": "x"})
    found = [transformation.apply(record(s.Struct.of(schema, {"a": n}), schema)) for n in range(2)]
    assert found[0].value_schema is found[1].value_schema


def test_headers_are_inserted_copied_and_dropped():
    found = transformed("InsertHeader", record({"a": 1}), header="h", value_literal="5")
    assert found.headers == (Header("h", s.INT8, 5),)
    found = transformed("HeaderFrom$Value", found, fields="a", headers="moved", operation="move")
    assert found.value == {}
    assert found.headers[1] == Header("moved", None, 1)
    assert transformed("DropHeaders", found, headers="h").headers == found.headers[1:]


def test_routers_change_the_topic():
    routed = transformed("RegexRouter", record(1), regex="(.*)-(eu|us)", replacement="$2.$1")
    assert routed.topic == "eu.t"
    assert transformed("RegexRouter", record(1), regex="eu", replacement="x").topic == "t-eu"
    assert transformed("TimestampRouter", record(1)).topic == "t-eu-19700102"


def test_value_to_key_makes_a_struct():
    schema = s.struct_schema([("a", s.INT8), ("b", s.STRING)])
    value = s.Struct.of(schema, {"a": 1, "b": "x"})
    found = transformed("ValueToKey", record(value, schema), fields="b")
    assert found.key == s.Struct.of(s.struct_schema([("b", s.STRING)]), {"b": "x"})


@pytest.mark.parametrize(
    ("name", "config", "value", "message"),
    [
        ("Cast$Value", {"spec": "int8"}, "300", "was out of range"),
        ("Cast$Value", {"spec": "int8"}, EpochMillis(0), "not supported by Connect's data API"),
        ("Flatten$Value", {}, 5, "Only Map objects supported in absence of schema for"),
        ("MaskField$Value", {"fields": "a"}, {"a": b""}, r"Cannot mask value of type: class \[B"),
        ("SetSchemaMetadata$Value", {"schema_name": "x"}, 5, "Schema required for"),
        (
            "TimestampConverter$Value",
            {"target_type": "unix", "format": "yyyy"},
            "x",
            r"value \(x\) does not match pattern \(yyyy\)",
        ),
    ],
)
def test_transform_unfit_value_raises_javas_message(
    name: str, config: dict[str, str], value: Any, message: str
):
    with pytest.raises(ConnectError, match=message):
        transformed(name, record(value), **config)


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("Cast$Value", {"spec": ""}, "Must specify at least one field to cast"),
        ("Cast$Value", {"spec": "a:array"}, "does not support casting to ARRAY"),
        ("InsertField$Value", {}, "No field insertion configured"),
        ("RegexRouter", {"regex": "(", "replacement": ""}, "Invalid regex"),
        ("HeaderFrom$Key", {"fields": "a", "headers": "b,c", "operation": "copy"}, "same number"),
        ("TimestampConverter$Key", {"target_type": "string"}, "requires format option"),
        ("ExtractField$Key", {"field": "`a", "field_syntax_version": "V2"}, "Incomplete backtick"),
    ],
)
def test_transform_wrong_configuration_is_refused(name: str, config: dict[str, str], message: str):
    with pytest.raises(ConfigValueError, match=message):
        transformed(name, record({}), **config)


STRINGS = {
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "transforms": "drop, route",
    "transforms.drop.type": "Filter",
    "transforms.drop.predicate": "empty",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": ".*",
    "transforms.route.replacement": "routed",
    "transforms.route.predicate": "named",
    "transforms.route.negate": "true",
    "predicates": "empty, named",
    "predicates.empty.type": "RecordIsTombstone",
    "predicates.named.type": "HasHeaderKey",
    "predicates.named.name": "keep",
}


def raw(value: bytes | None, *names: str) -> RawRecord:
    headers = tuple((name, b"1") for name in names)
    return RawRecord("t", 0, 0, 1, CREATE_TIME, None, value, headers)


def test_chain_predicates_select_records():
    chain = build_record_chain(STRINGS)
    assert chain.copied(raw(None)) is None
    kept, routed = chain.copied(raw(b"v", "keep")), chain.copied(raw(b"v"))
    assert (kept and kept.topic, routed and routed.topic) == ("t", "routed")


def test_chain_unknown_predicate_is_refused():
    with pytest.raises(ConfigValueError, match="not among the predicates"):
        build_record_chain({**STRINGS, "predicates": "named"})


def test_topic_name_predicate_matches_whole_names():
    predicate = REGISTRY.find("TopicNameMatches", PluginKind.PREDICATE).load()()
    predicate.configure({"pattern": "t-.*"})
    assert predicate.test(record(1))
    predicate.configure({"pattern": "t"})
    assert not predicate.test(record(1))
