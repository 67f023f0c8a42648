"""The Protobuf schemas of columns, by their values: what comes back of NULL and of zeros."""

from typing import Any

import pytest

from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from barnabas.pipeline.sql.catalog.source_values import Nulls, SourceColumn
from barnabas.pipeline.sql.planning.registry_schemas import protobuf_text
from barnabas.pipeline.sql.sql_types import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, array, struct
from barnabas.pipeline.streams.protobuf_serde import BareProtobuf

TYPES = {
    "I": INTEGER,
    "L": BIGINT,
    "D": DOUBLE,
    "B": BOOLEAN,
    "S": STRING,
    "A": array(STRING),
    "R": struct([("F", INTEGER)]),
}
COLUMNS = [SourceColumn(name, kind) for name, kind in TYPES.items()]
ZEROS: dict[str, Any] = {"I": 0, "L": 0, "D": 0.0, "B": False, "S": "", "A": [], "R": None}


def round_trip(value: dict[str, Any], nulls: Nulls | None) -> Any:
    text = protobuf_text(COLUMNS, None, nulls)
    serde = BareProtobuf("", "t-value", 0, RegisteredSchema("PROTOBUF", text), None)
    return serde.load(serde.dump(value))


@pytest.mark.parametrize("nulls", ["OPTIONAL", "WRAPPER"])
def test_null_stays_null_where_the_representation_says_so(nulls: Nulls) -> None:
    nothing = dict.fromkeys(TYPES)
    assert round_trip(nothing, nulls) == {**nothing, "A": []}
    assert round_trip({**ZEROS, "R": {"F": None}}, nulls) == {**ZEROS, "R": {"F": None}}


def test_null_is_the_zero_without_a_representation() -> None:
    assert round_trip(dict.fromkeys(TYPES), None) == ZEROS
    assert round_trip({**ZEROS, "R": {"F": None}}, None) == {**ZEROS, "R": {"F": 0}}


def test_bare_message_has_no_id_of_a_schema() -> None:
    text = protobuf_text([SourceColumn("I", INTEGER)], "shop.Order")
    assert "package shop;" in text
    serde = BareProtobuf("", "t-value", 0, RegisteredSchema("PROTOBUF", text), "shop.Order")
    assert serde.dump({"I": 7}) == b"\x08\x07"
