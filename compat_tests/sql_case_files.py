"""The cases of ksqlDB's query translation tests, as values."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# A string, which stays, or a comment, which JSON does not have.
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


@dataclass(frozen=True)
class CaseRecord:
    """A record of a case, of which `timestamp` and `window` may be left out."""

    topic: str
    key: Any
    value: Any
    timestamp: int | None
    window: dict[str, Any] | None
    headers: tuple[tuple[str, str | None], ...] | None


@dataclass(frozen=True)
class Case:
    """The statements of one case in one format, its records, and whether ksqlDB refuses it."""

    file: str
    name: str
    statements: tuple[str, ...]
    refused: bool
    inputs: tuple[CaseRecord, ...]
    outputs: tuple[CaseRecord, ...]
    properties: dict[str, Any]
    topics: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class RestCase(Case):
    """A case whose statements are requests, with the answers that it expects."""

    responses: tuple[dict[str, Any], ...]
    is_waiting: bool
    """True for records that are written when the SELECT has begun."""


def cases_of(directory: Path) -> Iterator[Case]:
    """Read the cases of all files of the directory that are enabled.

    Those that have answers of REST only, and no records, are left out.
    """
    for file, form, test in _tests_of(directory, Decimal):
        if "outputs" in test or "responses" not in test:
            yield _case(file, form, test)


def rest_cases_of(directory: Path) -> Iterator[RestCase]:
    """Read the enabled cases of ksqlDB's REST tests, without their answers as Protobuf."""
    for file, form, test in _tests_of(directory, Decimal):
        responses = tuple(each for each in test.get("responses", []) if "queryProto" not in each)
        is_waiting = test.get("inputConditions", {}).get("waitForActivePushQuery", False)
        yield RestCase(**vars(_case(file, form, test)), responses=responses, is_waiting=is_waiting)


def _case(file: str, form: str, test: dict[str, Any]) -> Case:
    return Case(
        file,
        f"{test['name']}{f' [{form}]' if form else ''}",
        _statements(test, form),
        _is_refused(test),
        tuple(_record(each, form) for each in test.get("inputs", [])),
        tuple(_record(each, form) for each in test.get("outputs", [])),
        test.get("properties", {}),
        tuple(test.get("topics", [])),
    )


def enabled_cases(directory: Path) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """Return the name, the statements and the JSON of each enabled case in each of its formats."""
    for file, form, test in _tests_of(directory, float):
        yield f"{file}: {test['name']}{f' [{form}]' if form else ''}", _statements(test, form), test


def _tests_of(
    directory: Path, parse_float: Callable[[str], Any]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in sorted(directory.glob("*.json")):
        text = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", path.read_text())
        for test in json.loads(text, parse_float=parse_float)["tests"]:
            if test.get("enabled", True):
                for form in test.get("format", [""]):
                    yield path.stem, form, test


def _is_refused(test: dict[str, Any]) -> bool:
    return "expectedException" in test or "expectedError" in test


def _statements(test: dict[str, Any], form: str) -> tuple[str, ...]:
    return tuple(each.replace("{FORMAT}", form) for each in test["statements"])


def _record(record: dict[str, Any], form: str) -> CaseRecord:
    headers = record.get("headers")
    return CaseRecord(
        record["topic"].replace("{FORMAT}", form),
        record.get("key"),
        record.get("value"),
        record.get("timestamp"),
        record.get("window"),
        None if headers is None else tuple((each["KEY"], each["VALUE"]) for each in headers),
    )
