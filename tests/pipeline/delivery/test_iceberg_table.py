"""Columns of an Iceberg table."""

from typing import Any

import pytest

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.delivery.lake import iceberg_table
from barnabas.pipeline.delivery.lake.iceberg_table import widened


def columns(**kinds: Any) -> dict[str, Any]:
    fields = [{"name": n, "type": k, "nullable": True, "metadata": {}} for n, k in kinds.items()]
    return {"type": "struct", "fields": fields}


def test_columns_that_iceberg_lacks_are_widened() -> None:
    kind = columns(
        a="byte",
        b={"type": "array", "elementType": "short", "containsNull": True},
        c={"type": "map", "keyType": "string", "valueType": columns(d="short")},
        e="long",
    )
    found = {each["name"]: each["type"] for each in widened(kind)["fields"]}
    assert found["a"] == "integer"
    assert found["b"] == {"type": "array", "elementType": "integer", "containsNull": True}
    assert found["c"]["valueType"]["fields"][0]["type"] == "integer"
    assert found["e"] == "long"


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (columns(id="long"), "column city string, the table /t has no column city"),
        (columns(id="integer", city="string"), "column id long, the table /t has id integer"),
        (columns(id="long", city="string", more="date"), "the column more, which the rows lack"),
    ],
)
def test_table_with_other_columns_is_refused(there: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        iceberg_table._check_columns("/t", columns(id="long", city="string"), there)


def test_table_with_the_columns_in_another_order_is_taken() -> None:
    noted = columns(city="string", id="long")
    noted["fields"][0]["metadata"] = {"comment": "x"}
    iceberg_table._check_columns("/t", columns(id="long", city="string"), noted)
    noted["fields"][0]["nullable"] = False
    with pytest.raises(DataError, match="the column city of the table /t takes no nulls"):
        iceberg_table._check_columns("/t", columns(id="long", city="string"), noted)
