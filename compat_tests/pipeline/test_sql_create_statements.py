"""The CREATE statement of an app's topic, by its serdes."""

import pytest

from barnabas import sql
from barnabas import streams as ks
from compat_tests import spark as setup

pytestmark = [setup.needed, pytest.mark.timeout(600), pytest.mark.usefixtures("engine")]


def test_fields_of_json_are_columns_and_odd_names_are_quoted() -> None:
    value = ks.Json("user STRING, from TIMESTAMP, `a b` ARRAY<INT>, price DECIMAL(8,2)")
    assert sql.create_statement("orders", "orders-1", key=ks.Long(), value=value) == (
        "CREATE STREAM orders (ROWKEY BIGINT KEY, user STRING, `from` TIMESTAMP, "
        "`a b` ARRAY<INTEGER>, price DECIMAL(8, 2)) "
        "WITH (kafka_topic='orders-1', key_format='KAFKA', value_format='JSON');"
    )


def test_table_with_windows_and_a_struct_as_key() -> None:
    found = sql.create_statement(
        "per_user",
        "t",
        kind="TABLE",
        key=ks.Json("user STRING"),
        value=ks.Json("BIGINT"),
        window=ks.tumbling("1 minute"),
    )
    assert found == (
        "CREATE TABLE per_user (user STRING PRIMARY KEY, ROWVAL BIGINT) WITH (kafka_topic='t', "
        "key_format='JSON', value_format='JSON', wrap_single_value=false, "
        "window_type='TUMBLING', window_size='60000 MILLISECONDS');"
    )


def test_columns_of_the_registry_are_left_out() -> None:
    assert sql.create_statement("o", "t", value=ks.Avro()) == (
        "CREATE STREAM o WITH (kafka_topic='t', key_format='NONE', value_format='AVRO');"
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (ks.Float(), "SQL has no format for the serde Float: write the topic with one of Bytes, "),
        (ks.Json(), "Json needs its schema here"),
    ],
)
def test_serdes_that_sql_does_not_have_are_refused(value: ks.Serde, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        sql.create_statement("o", "t", value=value)
