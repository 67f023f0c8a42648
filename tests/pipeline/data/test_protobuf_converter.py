"""Protobuf with a registry: schemas both ways, values both ways, and what is refused."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Struct, Type
from barnabas.pipeline.data.converters.protobuf_converter import ProtobufConverter
from barnabas.pipeline.data.java_values import EpochMillis, Float32
from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from barnabas.pipeline.definitions.config_types import ConfigValueError
from tests.pipeline.data.memory_registry import Registry, configured
from tests.pipeline.data.random_values import part, rows

PREFIX = "io.confluent.connect.protobuf"
NULLABLE = {"optional__for__nullables": "true"}


def converter(registry: Registry, **props: str) -> ProtobufConverter:
    return configured(ProtobufConverter(), registry, **props)


def text_of(registry: Registry) -> str:
    return " ".join(registry.schemas[0][1].text.split())


def registry_with(text: str, *references: tuple[str, str]) -> Registry:
    registry = Registry()
    registry.schemas.append(("t-value", RegisteredSchema("PROTOBUF", text, references)))
    return registry


def read(text: str, data: bytes, *references: tuple[str, str], **props: str) -> Any:
    framed = b"\x00\x00\x00\x00\x01" + data
    return converter(registry_with(text, *references), **props).to_connect("t", framed)


def seen(schema: Schema, value: Any) -> Any:
    """Return a value as it is read: a missing array or map is empty."""
    if schema.type is Type.ARRAY:
        return [seen(part(schema.value_schema), each) for each in value or ()]
    if schema.type is Type.MAP:
        values = part(schema.value_schema)
        return {key: seen(values, each) for key, each in (value or {}).items()}
    if value is not None and schema.type is Type.STRUCT:
        return {f.name: seen(f.schema, value.values[f.index]) for f in schema.fields}
    return value


@settings(deadline=None, max_examples=150)
@given(rows(nulls_in_arrays=False))
def test_protobuf_value_survives(row: tuple[Schema, Struct]):
    schema, value = row
    registry = Registry()
    writer, reader = (converter(registry, **NULLABLE) for _ in range(2))
    found, again = reader.to_connect("t", writer.from_connect("t", schema, value))
    assert found is not None
    assert found.name == part(schema).name.rpartition(".")[2]  # pyright: ignore
    assert seen(found, again) == seen(schema, value)
    assert [field.name for field in found.fields] == [field.name for field in schema.fields]
    kinds = [(field.schema.type, field.schema.name) for field in found.fields]
    for (kind, name), field in zip(kinds, schema.fields, strict=True):
        assert kind is field.schema.type
        assert kind in (Type.MAP, Type.STRUCT) or name == field.schema.name


@settings(deadline=None, max_examples=50)
@given(rows(nulls_in_arrays=False))
def test_protobuf_schema_that_was_read_is_written_again(row: tuple[Schema, Struct]):
    """A schema that came from Protobuf gives the same numbers, types and values again."""
    schema, value = row
    first, second = Registry(), Registry()
    props = {**NULLABLE, "enhanced__protobuf__schema__support": "true"}
    data = converter(first, **props).from_connect("t", schema, value)
    found, again = converter(first, **props).to_connect("t", data)
    assert converter(second, **props).from_connect("t", found, again) == data


def test_protobuf_data_begins_with_zero_id_and_path():
    schema = s.struct_schema([("name", s.STRING)], name="shop.Row")
    registry = Registry()
    data = converter(registry).from_connect("t", schema, Struct.of(schema, {"name": "ab"}))
    assert data == b"\x00\x00\x00\x00\x01\x00\x0a\x02ab"
    assert text_of(registry) == (
        'syntax = "proto3"; package shop; message Row { string name = 1; }'
    )
    assert registry.schemas[0][0] == "t-value"


def test_protobuf_schema_keeps_what_protobuf_lacks_in_options():
    schema = s.struct_schema([("small", s.INT8), ("price", s.decimal_schema(2))], name="Row")
    registry = Registry()
    value = Struct.of(schema, {"small": -3, "price": Decimal("12.50")})
    data = converter(registry).from_connect("t", schema, value)
    assert '{ key: "connect.type", value: "int8" }' in text_of(registry)
    assert '{ key: "scale", value: "2" }' in text_of(registry)
    found, again = converter(registry).to_connect("t", data)
    assert found is not None
    assert [field.schema.type for field in found.fields] == [Type.INT8, Type.BYTES]
    assert again.values == [-3, Decimal("12.50")]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (s.STRING, "ab"), (s.INT32, -5), (s.INT64, 2**40), (s.FLOAT64, 0.5), (s.BOOLEAN, True),
        (s.FLOAT32, Float32(0.5)), (s.BYTES, b"\x00\x01"),
    ],
)  # fmt: skip
def test_protobuf_primitive_value_is_a_wrapper(schema: Schema, value: Any):
    registry = Registry()
    data = converter(registry).from_connect("t", schema, value)
    assert converter(registry).to_connect("t", data) == (schema, value)
    raw, message = converter(registry, wrapper__for__raw__primitives="false").to_connect("t", data)
    assert raw is not None
    assert raw.type is Type.STRUCT
    assert message.get("value") == value


def test_protobuf_null_is_zero_unless_marked():
    schema = s.struct_schema([("n", s.OPTIONAL_INT32)], name="Row")
    for props, expected in (({}, 0), (NULLABLE, None), ({"wrapper__for__nullables": "true"}, None)):
        registry = Registry()
        data = converter(registry, **props).from_connect("t", schema, Struct(schema))
        assert converter(registry, **props).to_connect("t", data)[1].values == [expected]


ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "customer.proto";
message Order {
  enum State { NEW = 0; PAID = 1; }
  message Line { string item = 1; uint32 count = 2; }
  int64 id = 1;
  State state = 2;
  oneof payment { string card = 3; int32 voucher = 4; }
  repeated Line lines = 5;
  map<string, sint32> stock = 6;
  Customer customer = 7;
  optional string note = 8;
  fixed64 big = 9;
  google.protobuf.Timestamp at = 10;
}
message Other { int32 x = 1; message Inner { string y = 1; } }
"""
CUSTOMER = (
    "customer.proto",
    'syntax = "proto3"; package shop; message Customer { string name = 1; }',
)


def order_data() -> bytes:
    from google.protobuf.message_factory import GetMessageClass

    from barnabas.pipeline.data.converters.protobuf_files import types_of_text

    types = types_of_text(ORDER, [CUSTOMER])
    made = GetMessageClass(types.descriptor("shop.Order"))
    order: Any = made(id=7, state=1, voucher=5, big=2**64 - 1)
    order.lines.add(item="pen", count=2**32 - 1)
    order.stock["a"] = -4
    order.customer.name = "Ada"
    order.at.seconds, order.at.nanos = 1, 500_000_000
    return b"\x00" + order.SerializeToString()


def test_protobuf_message_of_another_client_is_read():
    schema, order = read(ORDER, order_data(), CUSTOMER)
    assert schema.name == "Order"
    payment = order.get("payment_0")
    assert payment.schema.name == f"{PREFIX}.Union.payment"
    assert (payment.get("card"), payment.get("voucher")) == (None, 5)
    assert (order.get("id"), order.get("state"), order.get("note")) == (7, "PAID", None)
    state = schema.field("state").schema
    assert state.parameters == {
        f"{PREFIX}.Enum": "State", f"{PREFIX}.Enum.NEW": "0", f"{PREFIX}.Enum.PAID": "1",
        f"{PREFIX}.Tag": "2",
    }  # fmt: skip
    assert order.get("lines")[0].values == ["pen", 2**32 - 1]
    assert order.get("stock") == {"a": -4}
    assert order.get("customer").get("name") == "Ada"
    assert order.get("big") == -1
    assert schema.field("big").schema.parameters == {
        f"{PREFIX}.Type": "fixed64",
        f"{PREFIX}.Tag": "9",
    }
    assert order.get("at") == EpochMillis(1500)


def test_protobuf_message_of_another_client_is_written_again():
    """The bytes differ in the order of fields only, so the library reads an equal message."""
    registry = registry_with(ORDER, CUSTOMER)
    framed = b"\x00\x00\x00\x00\x01" + order_data()
    reader = converter(registry, **NULLABLE)
    schema, order = reader.to_connect("t", framed)
    data = converter(registry, **NULLABLE).from_connect("copy", schema, order)
    assert data is not None
    found, again = converter(registry, **NULLABLE).to_connect("copy", data)
    assert seen(part(found), again) == seen(part(schema), order)


def test_protobuf_path_chooses_the_message():
    schema, value = read(ORDER, b"\x02\x02\x08\x05", CUSTOMER)
    assert (schema.name, value.get("x")) == ("Other", 5)
    schema, value = read(ORDER, b"\x04\x02\x00\x0a\x01y", CUSTOMER)
    assert (schema.name, value.get("y")) == ("Inner", "y")


def test_protobuf_properties_change_schemas():
    props = {
        "enhanced__protobuf__schema__support": "true",
        "int__for__enums": "true",
        "generate__index__for__unions": "false",
    }
    schema, order = read(ORDER, order_data(), CUSTOMER, **props)
    assert schema.name == "shop.Order"
    assert order.get("state") == 1
    assert order.get("payment").schema.name == f"{PREFIX}.Union.shop.Order.payment"


def test_protobuf_unknown_enum_number_has_a_name():
    _, order = read(ORDER, b"\x00\x10\x09", CUSTOMER)
    assert order.get("state") == "UNKNOWN_ENUM_VALUE_State_9"


PROTO2 = (
    'syntax = "proto2"; message Old { optional int32 n = 1 [default = 5]; required string s = 2; }'
)


def test_protobuf_proto2_field_that_is_not_set_is_null():
    data = b"\x00\x12\x01a"
    assert read(PROTO2, data)[1].values == [None, "a"]
    assert read(PROTO2, data, optional__for__proto2="false")[1].values == [5, "a"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "Unknown magic byte"),
        (b"\x00\x00\x00\x00\x09x", "schema 9: Schema 9 not found"),
        (b"\x00\x00\x00\x00\x01", "schema 1: the path of the message is cut short"),
        (b"\x00\x00\x00\x00\x01\x02\x0a", r"schema 1: the schema has no message at \[5\]"),
        (b"\x00\x00\x00\x00\x01\x04\x02\x0a", r"schema 1: the schema has no message at \[1, 5\]"),
        (b"\x00\x00\x00\x00\x01\x01", "schema 1: the path of the message has -1 parts"),
        (b"\x00\x00\x00\x00\x01\xfe\xff\xff\xff\x0f", "schema 1: the path of the message has"),
        (b"\x00\x00\x00\x00\x01\x00\x08", "schema 1: "),
        (b"\x00\x00\x00\x00\x01\x00\xff\xff\xff", "schema 1: "),
        (b"\x00\x00\x00\x00\x01\x00\x3a\x05\x0a", "schema 1: "),
    ],
)
def test_protobuf_unreadable_data_is_refused(data: bytes, message: str):
    with pytest.raises(
        DataError,
        match=f"Failed to deserialize data for topic t to Protobuf: .*{message}|{message}",
    ):
        converter(registry_with(ORDER, CUSTOMER)).to_connect("t", data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("message {", "the Protobuf schema cannot be used"),
        (
            'import "gone.proto"; message M { Gone g = 1; }',
            "imports gone.proto, which is not a reference",
        ),
        ("message N { optional N next = 1; }", "contains itself"),
        ("message G { optional group Old = 1 { optional int32 n = 1; } }", "has a group"),
        ("message D { optional int32 a = 1; optional int32 b = 1; }", "cannot be used"),
    ],
)
def test_protobuf_schema_that_cannot_be_used_is_refused(text: str, message: str):
    with pytest.raises(DataError, match=f"schema 1: .*{message}"):
        read(text, b"\x00")


def test_protobuf_schema_of_another_type_is_refused():
    registry = Registry()
    registry.schemas.append(("t-value", RegisteredSchema("AVRO", '"string"')))
    with pytest.raises(DataError, match="schema 1: the schema is of type AVRO"):
        converter(registry).to_connect("t", b"\x00\x00\x00\x00\x01\x00")


LIST = s.array_schema(s.INT32)


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (LIST, [1], "is not a message"),
        (s.TIMESTAMP, EpochMillis(1), "is not a message"),
        (s.struct_schema([("a", s.array_schema(LIST))]), [[[1]]], "array of arrays"),
        (s.struct_schema([("a", s.array_schema(s.OPTIONAL_INT32))]), [[None]], "a null"),
        (s.struct_schema([("a-b", s.INT32)]), [1], "is not a name in Protobuf"),
        (s.struct_schema([("a", s.INT32)], name="x-y.Z"), [1], "is not a name in Protobuf"),
        (s.struct_schema([("m", s.map_schema(s.STRING, LIST))]), [{}], "map of arrays"),
    ],
)
def test_protobuf_value_without_a_message_is_refused(schema: Schema, value: Any, message: str):
    held = Struct(schema, value) if schema.type is Type.STRUCT else value
    with pytest.raises(DataError, match=message):
        converter(Registry()).from_connect("t", schema, held)


def test_protobuf_number_of_two_fields_is_refused():
    tagged = Schema(Type.INT32, parameters={f"{PREFIX}.Tag": "4"})
    schema = s.struct_schema([("a", tagged), ("b", tagged)], name="Row")
    with pytest.raises(DataError, match="the number 4 of another"):
        converter(Registry()).from_connect("t", schema, Struct(schema, [1, 2]))


def test_protobuf_enum_without_zero_is_refused():
    enum = Schema(
        Type.STRING, name="E", parameters={f"{PREFIX}.Enum": "E", f"{PREFIX}.Enum.A": "1"}
    )
    schema = s.struct_schema([("e", enum)], name="Row")
    with pytest.raises(DataError, match="must have the number 0"):
        converter(Registry()).from_connect("t", schema, Struct(schema, ["A"]))


def test_protobuf_names_are_scrubbed_on_request():
    schema = s.struct_schema([("a-b", s.INT32), ("9x", s.STRING)], name="Row")
    registry = Registry()
    scrubbing = converter(registry, scrub__invalid__names="true")
    data = scrubbing.from_connect("t", schema, Struct(schema, [1, "v"]))
    found, value = scrubbing.to_connect("t", data)
    assert found is not None
    assert [field.name for field in found.fields] == ["a_b", "x9x"]
    assert value.values == [1, "v"]


def test_protobuf_subject_follows_the_strategy():
    schema = s.struct_schema([("a", s.INT32)], name="shop.Row")
    for strategy, subject in (
        ("RecordNameStrategy", "shop.Row"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "t-shop.Row"),
    ):
        registry = Registry()
        made = converter(registry, value__subject__name__strategy=strategy)
        made.from_connect("t", schema, Struct(schema, [1]))
        assert registry.schemas[0][0] == subject


@pytest.mark.parametrize(
    "name",
    ["use__latest__version", "generate__struct__for__nulls", "generalized__sum__type__support"],
)
def test_protobuf_property_without_effect_is_refused(name: str):
    with pytest.raises(ConfigValueError, match="does not support"):
        converter(Registry(), **{name: "true"})
    converter(Registry(), **{name: "false"})


def test_protobuf_null_is_a_tombstone():
    protobuf = converter(Registry())
    assert protobuf.from_connect("t", s.OPTIONAL_INT8, None) is None
    assert protobuf.to_connect("t", None) == (None, None)
