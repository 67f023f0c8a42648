"""Values of SQL's expressions on Spark: the examples of ksqlDB's reference, and bad input."""

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest
from sqlglot import expressions as exp

pytest.importorskip("sqlglot")

import barnabas.streams as ks
from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.sql.functions.aggregate_folds import fold_form
from barnabas.pipeline.sql.functions.resolution import aggregate
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_types import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    SqlType,
    array,
    decimal,
    to_spark,
)
from barnabas.pipeline.sql.statement_values import Select
from compat_tests.sql_rows import Names, of_spark, same, selected

COMPILES = True
NAN = math.nan
INFINITY = math.inf

OPERATORS: dict[str, Any] = {
    "2147483647 + 1": -2147483648,
    "9223372036854775807 + 1": -9223372036854775808,
    "9223372036854775807 * 2": -2,
    "-7 / 2": -3,
    "-7 % 2": -1,
    "1 / 0": None,
    "1 % 0": None,
    "1.5 / 0.0": None,
    "1e0 / 0e0": INFINITY,
    "0e0 / 0e0": NAN,
    "1 + CAST(null AS INT)": None,
    "1.25 * 2.5": Decimal("3.125"),
    "10.0 / 4.0": Decimal("2.500000"),
    "'a' + 'b'": "ab",
    "'a' || CAST(null AS STRING)": None,
    "CAST(null AS INT) = 1": False,
    "1 <> CAST(null AS INT)": False,
    "null is distinct from 1": True,
    "null is null": True,
    "1 is not distinct from 1": True,
    "3 between 1 and 5": True,
    "'b' in ('a', 'b', null)": True,
    "2 in (1, '2')": True,
    "'foo.bar' like 'foo._a%'": True,
    "'fooXbar' like 'foo.%'": False,
    "'50%' like '%!%' escape '!'": True,
    "'50' like '%!%' escape '!'": False,
    "'a!b' like 'a!!b' escape '!'": True,
    "case when 1 > 2 then 'x' end": None,
    "case 2 when 1 then 'x' else 'y' end": "y",
    "array[1, 2, 3][1]": 1,
    "array[1, 2, 3][-1]": 3,
    "array[1, 2, 3][0]": None,
    "array[1, 2, 3][4]": None,
    "map('a' := 1)['a']": 1,
    "map('a' := 1)['b']": None,
    "map('a' := 1, 'a' := 2)": {"a": 2},
    "struct(a := 1, b := 'x')->b": "x",
    "cast('2020-02-30' as date)": None,
    "cast('2020-02-29' as date) > '2020-02-28'": True,
    "cast('2020-02-29' as date) = cast('2020-02-29T00:00:00' as timestamp)": True,
}
CASTS: dict[str, Any] = {
    "from_bytes(cast(' RXg= ' as bytes), 'utf8')": "Ex",
    "from_bytes('RXg=', 'utf8')": "Ex",
    "cast('x!' as bytes)": None,
    "cast('x' as int)": None,
    "cast(' 7 ' as int)": 7,
    "cast('7.5' as int)": None,
    "cast('99999999999' as int)": None,
    "cast('1e2' as double)": 100.0,
    "cast(2147483648 as int)": -2147483648,
    "cast(1e30 as int)": 2147483647,
    "cast(-7.9 as int)": -7,
    "cast('12.345' as decimal(4, 2))": Decimal("12.35"),
    "cast(123.4 as decimal(3, 2))": None,
    "cast('TRUE' as boolean)": True,
    "cast('yes' as boolean)": False,
    "cast(1.50 as string)": "1.50",
    "cast(1e0 as string)": "1.0",
    "cast(array[1, null] as string)": "[1, null]",
    "cast(map('a' := 1) as string)": "{a=1}",
    "cast(struct(a := 1, b := 'x') as string)": "Struct{A=1,B=x}",
    "cast('10:30' as time)": 37_800_000,
    "cast('10:30:01.5' as time)": 37_801_500,
    "cast('24:00' as time)": None,
    "cast(cast('10:30:01' as time) as string)": "10:30:01",
    "cast('2022-04-28T21:44:47.943Z' as timestamp)": datetime.datetime(
        2022, 4, 28, 21, 44, 47, 943000
    ),
    "cast('2020-02-28T24' as timestamp)": datetime.datetime(2020, 2, 29),
    "cast('2020-02-29T24:00:00.000+0100' as timestamp)": datetime.datetime(2020, 2, 29, 23),
    "cast('2020-02-29T24:00:01' as timestamp)": None,
    "cast('2022-04' as timestamp)": datetime.datetime(2022, 4, 1),
    "cast('nothing' as timestamp)": None,
    "cast(array['1', 'x'] as array<int>)": [1, None],
}
STRINGS: dict[str, Any] = {
    "chr(75)": "K",
    "chr('\\u004b')": "K",
    "chr(22909)": "好",
    "chr(-1)": None,
    "concat('a', null, 'b')": "ab",
    "concat_ws(', ', 'apple', 'banana', null, 'date')": "apple, banana, date",
    "concat_ws(null, 'a', 'b')": None,
    "elt(2, 'a', 'b')": "b",
    "elt(3, 'a', 'b')": None,
    "field('b', 'a', 'b')": 2,
    "field(null, 'a')": 0,
    "initcap('the QUICK fox')": "The Quick Fox",
    "instr('CORPORATE FLOOR', 'OR')": 2,
    "instr('CORPORATE FLOOR', 'OR', 3)": 5,
    "instr('CORPORATE FLOOR', 'OR', 3, 2)": 14,
    "instr('CORPORATE FLOOR', 'OR', -3)": 5,
    "instr('CORPORATE FLOOR', 'OR', -3, 2)": 2,
    "instr('CORPORATE FLOOR', 'MISSING')": 0,
    "lpad('Foo', 7, 'Bar')": "BarBFoo",
    "lpad('Foo', 2, 'Bar')": "Fo",
    "rpad('Foo', 7, 'Bar')": "FooBarB",
    "rpad('Foo', -1, 'Bar')": None,
    "rpad('Foo', 7, '')": None,
    "mask('My Test $123')": "Xx-Xxxx--nnn",
    "mask('My Test $123', '*', null, '1', null)": "*y *est $111",
    "mask_keep_left('My Test $123', 4)": "My Txxx--nnn",
    "mask_keep_right('My Test $123', 4)": "Xx-Xxxx-$123",
    "mask_left('My Test $123', 4)": "Xx-Xest $123",
    "mask_right('My Test $123', 4)": "My Test -nnn",
    "regexp_extract('(.*) (.*)', 'hello there', 2)": "there",
    "regexp_extract('x', 'hello')": None,
    "regexp_extract_all('(\\w+) (\\w+)', 'hello there nice day', 2)": ["there", "day"],
    "regexp_replace('baab', 'a+', '-')": "b-b",
    "regexp_replace('a', '(', '-')": None,
    "regexp_extract('[', 'a')": None,
    "regexp_extract_all('a{', 'a')": None,
    "regexp_split_to_array('a', '*')": None,
    "regexp_split_to_array('a1b22c', '[0-9]+')": ["a", "b", "c"],
    "replace('foobar', 'foo', 'b')": "bbar",
    "split('a.b.', '.')": ["a", "b", ""],
    "split('abc', '')": ["a", "b", "c"],
    "split_to_map('a:=b/c:=d/a:=e', '/', ':=')": {"a": "e", "c": "d"},
    "substring('stream', 1, 4)": "stre",
    "substring('stream', -3)": "eam",
    "substring('stream', 2, -1)": None,
    "trim('  a b ')": "a b",
    "len('abc')": 3,
    "md5('hash me')": "17b31dce96b9d6c6d0a6ba95f47796fb",
    "encode('4578616d706C6521', 'hex', 'utf8')": "Example!",
    "encode('0x578616d706C6521', 'hex', 'base64')": "BXhhbXBsZSE=",
    "encode('X''45''', 'hex', 'utf8')": "E",
    "encode('X''4''', 'hex', 'utf8')": None,
    "encode('457', 'hex', 'utf8')": None,
    "to_bytes('x!z', 'base64')": None,
    "from_bytes(to_bytes('Example!', 'utf8'), 'base64')": "RXhhbXBsZSE=",
    "int_from_bytes(to_bytes('000007E5', 'hex'))": 2021,
    "int_from_bytes(to_bytes('E5070000', 'hex'), 'LITTLE_ENDIAN')": 2021,
    "bigint_from_bytes(to_bytes('AAAAASoF8gA=', 'base64'))": 5_000_000_000,
    "double_from_bytes(to_bytes('QICm/ZvJ9YI=', 'base64'))": 532.8738323,
    "double_from_bytes(to_bytes('00', 'hex'))": None,
}
NUMBERS: dict[str, Any] = {
    "abs(-3.2)": Decimal("3.2"),
    "ceil(1.1e0)": 2.0,
    "floor(-1.1e0)": -2.0,
    "ln(0)": -INFINITY,
    "ln(-1)": NAN,
    "log(2, 8)": 3.0,
    "log(1, 8)": NAN,
    "sqrt(-1)": NAN,
    "power(2, 10)": 1024.0,
    "power(10, 400)": INFINITY,
    "round(-1.5e0)": -1,
    "round(1.5e0)": 2,
    "round(-2.345, 2)": Decimal("-2.340"),
    "round(2.345, 2)": Decimal("2.350"),
    "round(1234e0, -2)": 1200.0,
    "trunc(12345.67, -3)": Decimal("12000.00"),
    "trunc(-1.9e0)": -1,
    "sign(-5)": -1,
    "generate_series(1, 3)": [1, 2, 3],
    "generate_series(3, 1)": [3, 2, 1],
    "generate_series(1, 5, 2)": [1, 3, 5],
    "generate_series(1, 5, 0)": None,
    "greatest(1, null, 3)": 3,
    "least('b', 'a')": "a",
    "geo_distance(0, 0, 0, 0)": 0.0,
    "geo_distance(100, 0, 0, 0)": None,
    "ifnull(null, 5)": 5,
    "coalesce(null, null, 'x')": "x",
    "nullif(1, 1)": None,
}
COLLECTIONS: dict[str, Any] = {
    "array_concat(array[1, 2], array[4, 1])": [1, 2, 4, 1],
    "array_contains(array[1, null], null)": True,
    "array_distinct(array['apple', 'apple', null, 'cherry'])": ["apple", None, "cherry"],
    "array_distinct(array[map('a' := 1), map('a' := 1)])": [{"a": 1}],
    "array_except(array[1, 2, 3, 1, 2], array[2, 3])": [1],
    "array_intersect(array[1, 2, 3, 1, 2], array[2, 1])": [1, 2],
    "array_join(array[1, null, 2], '|')": "1|null|2",
    "array_length(array[1, 2, 3])": 3,
    "array_max(array[-1, 2, null, 0])": 2,
    "array_min(array['Foo', 'Bar', null, 'baz'])": "Bar",
    "array_remove(array['Foo', null, 'Bar'], null)": ["Foo", "Bar"],
    "array_sort(array[-1, 2, null, 0])": [-1, 0, 2, None],
    "array_sort(array[-1, 2, null, 0], 'DESC')": [2, 0, -1, None],
    "array_sort(array[1], 'up')": None,
    "array_union(array[1, 2, 3, 1, 2], array[4, 1])": [1, 2, 3, 4],
    "as_map(array['a', 'b'], array[1, 2])": {"a": 1, "b": 2},
    "entries(map('b' := 1, 'a' := 2), true)": [("a", 2), ("b", 1)],
    "map_keys(map('apple' := 10))": ["apple"],
    "map_values(map('apple' := 10))": [10],
    "map_union(map('apple' := 10, 'banana' := 20), map('apple' := 50))": {
        "apple": 50,
        "banana": 20,
    },
    "slice(array[1, 2, 3], 2, 3)": [2, 3],
    "slice(array[1, 2, 3], 2, 9)": None,
    "transform(array[1, 2], x => x * 2)": [2, 4],
    "transform(map('a' := 1), (k, v) => ucase(k), (k, v) => v + 1)": {"A": 2},
    "filter(array[1, 2, 3], x => x > 1)": [2, 3],
    "filter(map('a' := 1, 'b' := 2), (k, v) => v = 2)": {"b": 2},
    "reduce(array[1, 2, 3], 10, (s, x) => s + x)": 16,
    "reduce(array[1, 2147483648], 0, (s, x) => s + x)": 2147483649,
    "reduce(map('a' := 1, 'b' := 2), 0, (s, k, v) => s + v)": 3,
    "reduce(array[1], cast(null as int), (s, x) => s + x)": None,
}
JSON_AND_URLS: dict[str, Any] = {
    'extractjsonfield(\'{"log": {"cloud": "x", "n": 4}}\', \'$.log.n\')': "4",
    "extractjsonfield('[1, 2]', '$[5]')": None,
    "is_json_string('[1, 2, 3]')": True,
    "is_json_string('null')": True,
    "is_json_string('abc')": False,
    "is_json_string(null)": False,
    "json_array_contains('[1, 2, 3]', 3)": True,
    "json_array_contains('{}', 3)": False,
    "json_array_length('[1, [1, [2]], 3]')": 3,
    "json_array_length('{}')": None,
    "json_concat('{\"a\": 1}', '{\"b\": 2}')": '{"a":1,"b":2}',
    "json_concat('[1, 2]', '3')": "[1,2,3]",
    "json_concat('null', 'null')": "[null,null]",
    "json_concat('abc', '[1]')": None,
    "json_items('[1, 2, 3]')": ["1", "2", "3"],
    'json_keys(\'{"a": 1, "b": {"c": 2}}\')': ["a", "b"],
    "json_keys('[]')": None,
    'json_records(\'{"a": "x", "b": {"c": 1}}\')': {"a": "x", "b": '{"c":1}'},
    "to_json_string('abc')": '"abc"',
    "to_json_string(null)": "null",
    "to_json_string(struct(id := 1, name := 'A'))": '{"ID":1,"NAME":"A"}',
    "to_json_string(cast('13:25' as time))": '"13:25"',
    "url_encode_param('url encoded')": "url+encoded",
    "url_decode_param('url%20encoded')": "url encoded",
    "url_decode_param('%zz')": None,
    "url_extract_fragment('http://test.com#frag%20space')": "frag space",
    "url_extract_host('http://test.com:8080/path')": "test.com",
    "url_extract_host('not a url')": None,
    "url_extract_parameter('http://test.com?a%20b=c%20d', 'a b')": "c d",
    "url_extract_parameter('http://test.com?a=foo', 'b')": None,
    "url_extract_path('http://test.com/path/to#a')": "/path/to",
    "url_extract_port('http://localhost:8080/path')": 8080,
    "url_extract_protocol('http://test.com?a=foo&b=bar')": "http",
    "url_extract_query('http://test.com?a=foo%20bar&b=baz')": "a=foo bar&b=baz",
}
DATES: dict[str, Any] = {
    "format_date(from_days(18765), 'yyyy-MM-dd''T''')": "2021-05-18T",
    "format_date(from_days(18765), 'no format #')": None,
    "format_time(parse_time('13:25', 'HH:mm'), 'hh:mm a')": "01:25 PM",
    "format_timestamp(from_unixtime(0), 'HH:mm:ss.SSS', 'Europe/Berlin')": "01:00:00.000",
    "format_timestamp(from_unixtime(0), 'yyyy', 'Europe/Nowhere')": None,
    "format_timestamp(from_unixtime(0), 'uuuu HH''u'' VV z', 'Europe/Paris')": (
        "1970 01u Europe/Paris CET"
    ),
    "format_timestamp(from_unixtime(0), 'zzzz v O X XXX Z', 'Asia/Kolkata')": (
        "India Standard Time IT GMT+5:30 +0530 +05:30 +0530"
    ),
    "format_timestamp(from_unixtime(0), '\"XXX', '-07:00')": '"-07:00',
    "format_timestamp(cast(null as timestamp), 'XXX', '-07:00')": None,
    "format_timestamp(from_unixtime(0), 'MMMMM VV', 'Europe/Paris')": None,
    "format_timestamp(from_unixtime(0), 'HH VV', 'Europe/' + 'Paris')": "01 UTC",
    "timestamptostring(0, 'yyyy-MM-dd zzz', 'America/Los_Angeles')": "1969-12-31 PST",
    "format_timestamp(from_unixtime(0), 'MMMMM')": None,
    "format_timestamp(from_unixtime(0), 'EEE uu g F')": "Thu 70 40587 1",
    "format_timestamp(from_unixtime(0), 'HH', '+130')": None,
    "parse_date('Thu', 'EEE')": None,
    "parse_date('2020-12-31', 'uuuu-MM-dd')": datetime.date(2020, 12, 31),
    "unix_timestamp(parse_timestamp('1970-01-01 01:00 PST', 'yyyy-MM-dd HH:mm zzz', 'UTC'))": (
        32_400_000
    ),
    "unix_timestamp(parse_timestamp('1970-01-01 Asia/Kolkata', 'yyyy-MM-dd VV'))": -19_800_000,
    "parse_date('12/31/2020', 'MM/dd/yyyy')": datetime.date(2020, 12, 31),
    "parse_date('x', 'yyyy-MM-dd')": None,
    "unix_timestamp(parse_timestamp('2021-06-30 12:18', 'yyyy-MM-dd HH:mm'))": 1625055480000,
    "unix_timestamp(parse_timestamp('1970-01-01 01:00', 'yyyy-MM-dd HH:mm', 'Europe/Berlin'))": 0,
    "unix_timestamp(parse_timestamp('1970-01-01 01:00+01:00', 'yyyy-MM-dd HH:mmXXX', 'UTC'))": 0,
    "stringtotimestamp('1970-01-02', 'yyyy-MM-dd')": 86_400_000,
    "stringtodate('1970-01-02', 'yyyy-MM-dd')": 1,
    "datetostring(1, 'dd.MM.yyyy')": "02.01.1970",
    "timestamptostring(0, 'yyyy-MM-dd', 'UTC')": "1970-01-01",
    "unix_date(dateadd(days, 5, from_days(10)))": 15,
    "unix_date(datesub(hours, 24, from_days(10)))": 9,
    "timeadd(hours, 2, parse_time('23:00', 'HH:mm'))": 3_600_000,
    "timesub(minutes, 1, parse_time('00:00', 'HH:mm'))": 86_340_000,
    "unix_timestamp(timestampadd(seconds, 3, from_unixtime(5)))": 3005,
    "unix_timestamp(convert_tz(from_unixtime(0), 'UTC', '+02:00'))": 7_200_000,
    "unix_timestamp(convert_tz(from_unixtime(0), 'UTC', 'nowhere'))": None,
    "format_timestamp('2021-07-14T00:10:10.300Z', 'dd.MM. HH:mm:ss.SSS')": "14.07. 00:10:10.300",
    "unix_date(concat('1970', '-01-03'))": 2,
    "unix_date('today')": None,
}


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(OPERATORS, id="operators"),
        pytest.param(CASTS, id="casts"),
        pytest.param(STRINGS, id="strings and bytes"),
        pytest.param(NUMBERS, id="numbers and nulls"),
        pytest.param(COLLECTIONS, id="collections and lambdas"),
        pytest.param(JSON_AND_URLS, id="JSON and URLs"),
        pytest.param(DATES, id="dates"),
    ],
)
def test_expressions_have_the_values_of_ksqldb(engine, examples: dict[str, Any]) -> None:
    found = selected(engine.session, Names({}), [[]], [expression(text) for text in examples])
    differences = {
        text: (value, wanted)
        for (text, wanted), value in zip(examples.items(), found.rows[0], strict=True)
        if not same(value, wanted)
    }
    assert not differences


def expression(text: str) -> exp.Expr:
    (statement,) = parse_script(f"SELECT {text} FROM s")
    assert isinstance(statement, Select)
    return statement.items[0].expression


COLUMNS = {
    "i": INTEGER,
    "s": STRING,
    "d": DOUBLE,
    "p": decimal(4, 2),
    "c": STRING,
    "l": array(INTEGER),
}
ROWS = [
    (1, "a", 1.5, Decimal("1.50"), "x", [1, None, 2], 0, 20, 0),
    (3, "b", 2.5, None, "x", None, 1, 10, 0),
    (2, None, None, Decimal("98.00"), "x", [], 2, 30, 0),
    (None, "a", 3.5, Decimal("0.50"), "x", [3], 3, 40, 0),
]
AGGREGATES: dict[tuple[str, tuple[Any, ...]], Any] = {
    ("ATTR", ("s",)): None,
    ("ATTR", ("c",)): "x",
    ("COUNT", ()): 4,
    ("COUNT", ("s",)): 3,
    ("COUNT_DISTINCT", ("s",)): 2,
    ("SUM", ("i",)): 6,
    ("SUM", ("d",)): 7.5,
    ("SUM", ("p",)): None,
    ("SUM_LIST", ("l",)): 6,
    ("AVG", ("i",)): 2.0,
    ("MIN", ("s",)): "a",
    ("MAX", ("d",)): 3.5,
    ("STDDEV_SAMP", ("i",)): 1.0,
    ("STDDEV_SAMPLE", ("d",)): 1.0,
    ("CORRELATION", ("i", "d")): 1.0,
    ("COLLECT_LIST", ("s",)): ["a", "b", None, "a"],
    ("COLLECT_SET", ("s",)): ["a", "b", None],
    ("HISTOGRAM", ("s",)): {"a": 2, "b": 1},
    ("TOPK", ("i", 2)): [3, 2],
    ("TOPK", ("i", "s", 2)): [(3, "b"), (2, None)],
    ("TOPKDISTINCT", ("s", 2)): ["b", "a"],
    ("EARLIEST_BY_OFFSET", ("s",)): "a",
    ("EARLIEST_BY_OFFSET", ("d", 2)): [1.5, 2.5],
    ("LATEST_BY_OFFSET", ("i",)): 2,
    ("LATEST_BY_OFFSET", ("i", False)): None,
    ("LATEST_BY_OFFSET", ("i", 2)): [3, 2],
    ("LATEST_BY_OFFSET", ("i", 2, False)): [2, None],
}
UNFOLDED = {
    ("COUNT_DISTINCT", ("s",)),
    ("TOPK", ("i", "s", 2)),
    ("SUM", ("p",)),
    ("SUM_LIST", ("l",)),
}


def types_of(arguments: tuple[Any, ...]) -> list[SqlType]:
    literals: dict[type, SqlType] = {int: INTEGER, bool: BOOLEAN}
    return [COLUMNS[each] if isinstance(each, str) else literals[type(each)] for each in arguments]


def test_aggregates_have_the_values_of_ksqldb(engine) -> None:
    functions = pyspark("sql.functions")
    names = "i int, s string, d double, p decimal(4, 2), c string, l array<int>"
    schema = f"{names}, _offset bigint, _timestamp bigint, _partition int"
    frame = engine.session.createDataFrame(list(reversed(ROWS)), schema)
    found = {key: aggregate(key[0], types_of(key[1])) for key in AGGREGATES}
    columns = [
        resolved.column(
            *(
                functions.col(each) if isinstance(each, str) else functions.lit(each)
                for each in key[1]
            )
        ).alias(f"r{at}")
        for at, (key, resolved) in enumerate(found.items())
    ]
    row = frame.agg(*columns).collect()[0]
    values = [
        of_spark(value, each.returns) for value, each in zip(row, found.values(), strict=True)
    ]
    differences = {
        key: (value, wanted)
        for (key, wanted), value in zip(AGGREGATES.items(), values, strict=True)
        if not same(value, wanted)
    }
    assert not differences


def test_folds_agree_with_the_aggregates(engine) -> None:
    functions = pyspark("sql.functions")
    names = list(COLUMNS)
    for key in AGGREGATES.keys() - UNFOLDED:
        name, arguments = key
        types = types_of(arguments)
        form = fold_form(name, types, aggregate(name, types).returns)
        states = []
        for part in (ROWS[:1], ROWS[1:]):
            state = form.initial
            for row in part:
                values = [
                    row[names.index(each)] if isinstance(each, str) else each for each in arguments
                ]
                state = form.add(state, values)
            states.append(state)
        merged = form.merge(*states)
        frame = engine.session.createDataFrame(
            [(merged,)], pyspark("sql.types").StructType().add("x", to_spark(form.state))
        )
        value = frame.select(form.result(functions.col("x")).alias("r")).collect()[0][0]
        wanted = AGGREGATES[key]
        if name == "COLLECT_SET":
            wanted = ["a", "b", None]
        assert same(value, wanted), (key, value, wanted)


def test_aggregates_run_in_a_streaming_query(engine) -> None:
    functions = pyspark("sql.functions")
    fields = {"n": ("COUNT", ()), "total": ("SUM", ("i",)), "last": ("LATEST_BY_OFFSET", ("i",))}
    fields |= {"top": ("TOPK", ("i", 2)), "texts": ("HISTOGRAM", ("s",))}
    fields |= {"all": ("COLLECT_LIST", ("s",)), "different": ("COUNT_DISTINCT", ("s",))}

    def describe(app: ks.App) -> None:
        columns = {
            name: aggregate(key[0], types_of(key[1])).column(
                *(
                    functions.col(each) if isinstance(each, str) else functions.lit(each)
                    for each in key[1]
                )
            )
            for name, key in fields.items()
        }
        schema = "i INT, s STRING, _offset BIGINT, _timestamp BIGINT, _partition INT"
        groups = app.topic("in", key=ks.String(), value=ks.Json(schema)).group_by_key()
        app.write(groups.aggregate(**columns), "out")

    def record(i: int, s: str, offset: int) -> tuple[str, dict[str, Any], int]:
        value = {"i": i, "s": s, "_offset": offset, "_timestamp": 0, "_partition": 0}
        return "k", value, 0

    result = "n BIGINT, total INT, last INT, top ARRAY<INT>, texts MAP<STRING, BIGINT>"
    result += ", all ARRAY<STRING>, different BIGINT"
    with ks.TestDriver(describe, session=engine.session) as driver:
        driver.pipe("in", record(3, "a", 0), record(1, "b", 1))
        driver.pipe("in", record(2, "a", 2))
        totals = driver.table("out", key=ks.String(), value=ks.Json(result))
    assert totals["k"] == {
        "n": 3,
        "total": 6,
        "last": 2,
        "top": [3, 2],
        "texts": {"a": 2, "b": 1},
        "all": ["a", "b", "a"],
        "different": 2,
    }
