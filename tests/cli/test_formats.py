"""Records as text, without a server."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.command_errors import CliError
from barnabas.cli.record_formats import Entry, check_template, json_line, parse_json, reader, writer
from barnabas.cli.times import parse_time

blobs = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple)


@given(
    st.builds(
        Entry,
        key=blobs,
        value=blobs,
        headers=headers,
        partition=st.integers(0, 9),
        timestamp=st.integers(0, 2**40),
        topic=st.none(),
        offset=st.none(),
    )
)
def test_json_of_consume_is_read_by_produce(entry: Entry) -> None:
    assert parse_json(json_line(entry)) == entry


@given(st.binary(max_size=30))
def test_any_line_is_a_record_or_a_value_error(line: bytes) -> None:
    try:
        parse_json(line)
    except ValueError as error:
        told = str(error)
        assert told


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ('{"key": "k", "value": "v"}', b"k", b"v"),
        ('{"value": {"a": [1, "é"]}}', None, '{"a":[1,"é"]}'.encode()),
        ('{"key": 7, "value": null}', b"7", None),
        ('{"value_base64": "/w=="}', None, b"\xff"),
        ("{}", None, None),
        ('{"value": {"a": 0.12345678901234567890}}', None, b'{"a":0.12345678901234567890}'),
        ('{"value": [1e400, 1.10, true, null]}', None, b"[1e400,1.10,true,null]"),
        ('{"value": 1.0, "key": 12345678901234567890}', b"12345678901234567890", b"1.0"),
    ],
)
def test_json_value_other_than_a_string_is_kept_as_json(
    line: str, key: bytes | None, value: bytes | None
) -> None:
    assert parse_json(line.encode())[:2] == (key, value)


def test_headers_may_be_an_object_or_pairs() -> None:
    assert parse_json(b'{"headers": {"a": "1", "b": null}}').headers == (("a", b"1"), ("b", None))
    assert parse_json(b'{"headers": [["a", "1"], ["a", {"base64": "/w=="}]]}').headers == (
        ("a", b"1"),
        ("a", b"\xff"),
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "it is not JSON"),
        ("[1]", "it must be a JSON object"),
        ('{"partition": "1"}', "partition must be an integer"),
        ('{"value": "open', "it is not JSON: Unterminated string starting at column 11"),
        ('{"timestamp": true}', "timestamp must be an integer"),
        ('{"headers": [1]}', "headers must be pairs"),
        ('{"headers": 1}', "headers must be pairs"),
        ('{"value_base64": "?"}', "is not base64"),
        ("[" * 100_000, "it is not JSON"),
        ('{"value": ' + "[" * 900 + "]" * 900 + "}", "it is not JSON: maximum recursion"),
        ('{"value": NaN}', "NaN is not a number of JSON"),
        ('{"vaule": "v"}', "a record has no 'vaule'; its names are key, key_base64, value,"),
        ('{"timestamp": 99999999999999999999}', "timestamp must be from -9223372036854775807"),
        ('{"timestamp": 1.5}', "timestamp must be an integer, not 1.5"),
        ('{"partition": -1}', "partition must be from 0 to 2147483647, not -1"),
        ('{"partition": 2147483648}', "partition must be from 0 to 2147483647"),
        ('{"value_base64": 1.5}', "1.5 is not base64"),
    ],
)
def test_bad_line_is_an_error(line: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_json(line.encode())


def test_key_and_value_are_split_at_the_separator() -> None:
    read = reader("key-value", "::", "NULL", None)
    assert read(b"k::v::w")[:2] == (b"k", b"v::w")
    assert read(b"NULL::NULL")[:2] == (None, None)
    with pytest.raises(ValueError, match="separator '::'"):
        read(b"k:v")
    write = writer("key-value", "::", "NULL", None)
    assert write(Entry(b"k", b"v")) == b"k::v\n"
    assert write(Entry(None, None)) == b"NULL::NULL\n"


def test_template_is_filled_with_its_fields() -> None:
    template = check_template("{topic}/{partition}@{offset}\\t{key}={value} {headers}")
    write = writer("value", "\t", None, template)
    entry = Entry(b"k", b"\xff", (("h", b"1"),), 2, 5, "t", 9)
    assert write(entry) == b"t/2@9\tk=\xff h=1\n"
    assert check_template("{offset:>5} {timestamp:,}")
    for bad in ("{nothing}", "{", "{key.__class__}", "{value:d}", "{value!z}"):
        with pytest.raises(CliError, match="--template"):
            check_template(bad)


def test_json_keeps_text_readable() -> None:
    line = json_line(Entry("é".encode(), b"v", (), 0, 7, "t", 3))
    assert json.loads(line) == {
        "topic": "t",
        "partition": 0,
        "offset": 3,
        "timestamp": 7,
        "key": "é",
        "value": "v",
    }


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1769860800000", 1769860800000),
        ("2026-01-31T12:00:00Z", 1769860800000),
        ("2026-01-31T13:00:00+01:00", 1769860800000),
        ("15m", 1_000_000_000 - 900_000),
        ("-2d", 1_000_000_000 - 172_800_000),
    ],
)
def test_time_is_parsed(text: str, ms: int) -> None:
    assert parse_time(text, now=1_000_000) == ms


def test_bad_time_is_a_usage_error() -> None:
    import click

    for text in ("noon", "99999999999999999999", "9999999999d"):
        with pytest.raises(click.UsageError, match=f"Invalid time '{text}'"):
            parse_time(text)
