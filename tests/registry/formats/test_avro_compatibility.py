"""Avro verdicts: recorded answers, the Python library as a second opinion, properties."""

import json
from typing import Any

import avro.compatibility
import avro.schema
import pytest
from hypothesis import given, settings

from barnabas.registry.formats import SchemaError, SchemaTooComplexError
from barnabas.registry.formats.avro import AvroFormat, AvroSchema
from tests.registry.formats.avro_schemas import avro_pairs, avro_schemas
from tests.registry.formats.golden import found, pairs, reasons, requests


def parse(schema: Any, *, is_new: bool = True) -> AvroSchema:
    text = schema if isinstance(schema, str) and schema[:1] in '{["' else json.dumps(schema)
    return AvroFormat().parse(text, is_new=is_new)


@pytest.mark.parametrize("index", range(len(pairs("AVRO"))))
def test_recorded_pair_has_the_recorded_verdict_and_reasons(index: int) -> None:
    pair = pairs("AVRO")[index]
    old, new = parse(pair["old"]), parse(pair["new"])
    for answer, reader, writer in (
        (pair["backward"], new, old),
        (pair["forward"], old, new),
    ):
        got = found(reader.check_reads(writer))
        assert got == reasons(answer)
        assert (not got) == answer["is_compatible"]


def recorded_checks(level: str) -> list[dict[str, Any]]:
    checks = []
    current = None
    for request in requests():
        if request["method"] == "PUT" and request["path"] == "/config/ca":
            current = request["body"]["compatibility"]
        if "/subjects/ca/versions/latest?verbose=true" in request["path"] and current == level:
            checks.append(request)
    return checks


@pytest.mark.parametrize("request_", recorded_checks("BACKWARD"))
def test_recorded_backward_request_has_the_recorded_answer(request_: dict[str, Any]) -> None:
    old = parse(recorded_base())
    try:
        new = parse(request_["body"]["schema"])
    except SchemaError:
        assert not request_["answer"]["is_compatible"]
    else:
        assert found(new.check_reads(old)) == reasons(request_["answer"])


@pytest.mark.parametrize("request_", recorded_checks("FULL"))
def test_recorded_full_request_lists_both_directions(request_: dict[str, Any]) -> None:
    old, new = parse(recorded_base()), parse(request_["body"]["schema"])
    both = old.check_reads(new) + new.check_reads(old)
    assert found(both) == reasons(request_["answer"])


def recorded_base() -> str:
    return next(r["body"]["schema"] for r in requests() if r["path"] == "/subjects/ca/versions")


@given(avro_pairs())
@settings(max_examples=300, deadline=None)
def test_verdict_of_random_pair_is_that_of_the_avro_library(pair: tuple[Any, Any]) -> None:
    old, new = (avro.schema.parse(json.dumps(s)) for s in pair)
    checker = avro.compatibility.ReaderWriterCompatibilityChecker()
    verdict = checker.get_compatibility(reader=new, writer=old).compatibility
    expected = verdict == avro.compatibility.SchemaCompatibilityType.compatible
    assert (not parse(pair[1]).check_reads(parse(pair[0]))) == expected


@given(avro_schemas())
@settings(max_examples=100, deadline=None)
def test_schema_reads_its_own_data(schema: Any) -> None:
    assert parse(schema).check_reads(parse(schema)) == []


@given(avro_schemas())
@settings(max_examples=100, deadline=None)
def test_added_field_with_default_is_compatible_both_ways(schema: Any) -> None:
    old = {"type": "record", "name": "Top", "fields": [{"name": "a", "type": schema}]}
    added = {"name": "added", "type": "int", "default": 0}
    new = {**old, "fields": [*old["fields"], added]}
    assert parse(new).check_reads(parse(old)) == []
    assert parse(old).check_reads(parse(new)) == []


@given(avro_schemas())
@settings(max_examples=100, deadline=None)
def test_added_field_without_default_is_forward_compatible_only(schema: Any) -> None:
    old = {"type": "record", "name": "Top", "fields": []}
    new = {**old, "fields": [{"name": "added", "type": schema}]}
    assert parse(old).check_reads(parse(new)) == []
    enum_default = isinstance(schema, dict) and schema["type"] == "enum" and "default" in schema
    expected = (
        ("TYPE_MISMATCH", "/fields/0/type")
        if enum_default
        else ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0")
    )
    assert found(parse(new).check_reads(parse(old))) == [expected]


def test_recursive_schemas_are_compared_without_end() -> None:
    old = '{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}'
    new = old.replace('"fields":[', '"fields":[{"name":"v","type":"int"},')
    assert found(parse(new).check_reads(parse(old))) == [
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0")
    ]


def test_alias_matching_two_fields_of_the_writer_is_reported() -> None:
    old = record({"name": "a", "type": "int"}, {"name": "b", "type": "int"})
    new = record({"name": "b", "type": "int", "aliases": ["a"]})
    assert found(parse(new).check_reads(parse(old))) == [("READER_FIELD_AMBIGUOUS", "/fields/0")]


def test_reasons_shared_by_many_fields_stay_bounded() -> None:
    """Each level repeats the reasons of the next twice: 2**40 without a bound."""
    old, new = (
        record(*({"name": f"f{i}", "type": level(i, leaf)} for i in range(40)))
        for leaf in ("int", "string")
    )
    assert 1 <= len(parse(new).check_reads(parse(old))) < 10_000


def level(index: int, leaf: str) -> Any:
    below = f"L{index - 1}" if index else leaf
    fields = [{"name": "x", "type": below}, {"name": "y", "type": below}]
    return {"type": "record", "name": f"L{index}", "fields": fields}


def test_too_many_pairs_are_refused_as_too_complex() -> None:
    names = [f"N{i}" for i in range(500)]
    old = [{"type": "fixed", "name": n, "size": 1} for n in names]
    new = [{"type": "fixed", "name": n, "size": 2} for n in names]
    with pytest.raises(SchemaTooComplexError):
        parse(new).check_reads(parse(old))


def test_long_chain_of_records_is_refused_as_too_complex() -> None:
    chain = [level(i, "int") for i in range(3000)]
    with pytest.raises(SchemaTooComplexError):
        parse(chain).check_reads(parse(chain))


def test_message_names_the_sides_by_the_direction_of_the_check() -> None:
    (reason,) = parse('"int"').check_reads(parse('"string"'))
    assert reason.details() == {
        "rule": "TYPE_MISMATCH",
        "path": "/",
        "old": "string",
        "new": "int",
        "hint": "int cannot read string: keep the type, promote it, or use a union",
    }
    assert reason.details(reader_is_new=False)["old"] == "int"
    assert "errorType:'TYPE_MISMATCH'" in reason.message()
    assert "path '/'" in reason.message()
    assert "old: int, new: string" in reason.message(reader_is_new=False)


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}
