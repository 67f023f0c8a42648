"""Evaluate expressions of ksqlDB's query translation tests on Spark, and compare the rows.

The cases are those of `sql_cases` that are one stateless SELECT over one source. A person names the
directory that has the files:

    make sql-function-cases ARGS="--cases DIR"

It prints the cases that differ, then how many passed for each function.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlglot import expressions as exp

from barnabas.pipeline.spark.session import SessionSettings, SparkProcess
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.sql_types import BIGINT, INTEGER, SqlType, resolved
from barnabas.pipeline.sql.statement_values import CreateSource, CreateType, Select
from compat_tests.sql_case_files import enabled_cases
from compat_tests.sql_rows import Names, of_json, same, selected

_PSEUDO = {"ROWTIME": BIGINT, "ROWPARTITION": INTEGER, "ROWOFFSET": BIGINT}


class UnsuitableError(Exception):
    """The case is not one stateless SELECT over one source."""


@dataclass(frozen=True)
class FunctionCase:
    """A source with its records, a query over it, and the records that are expected."""

    name: str
    source: CreateSource
    query: Select
    declared: Mapping[str, SqlType]
    inputs: Sequence[Mapping[str, Any]]
    outputs: Sequence[Mapping[str, Any]]

    def calls(self) -> set[str]:
        """Return the names of the functions that the query calls."""
        nodes = [each.expression for each in self.query.items]
        nodes += [self.query.where] if self.query.where else []
        found = {each.name for node in nodes for each in node.find_all(exp.Anonymous)}
        return found or {"operators"}


def function_cases(directory: Path) -> Iterator[FunctionCase]:
    """Return the suitable cases of a directory."""
    for name, statements, test in enabled_cases(directory):
        if "expectedException" not in test and test.get("outputs"):
            try:
                yield _case(name, statements, test)
            except (UnsuitableError, SqlError, UnresolvedError):
                continue


def _case(name: str, texts: Sequence[str], test: Mapping[str, Any]) -> FunctionCase:
    declared: dict[str, SqlType] = {}
    sources: list[CreateSource] = []
    for text in texts:
        for statement in parse_script(text):
            if isinstance(statement, CreateType):
                declared[statement.name] = resolved(statement.type, declared)
            elif isinstance(statement, CreateSource):
                sources.append(statement)
            else:
                raise UnsuitableError
    if len(sources) != 2 or sources[0].query or not sources[0].columns or not sources[1].query:
        raise UnsuitableError
    source, query = sources[0], sources[1].query
    is_stateful = (
        query.joins or query.window or query.group_by or query.partition_by or query.emit == "FINAL"
    )
    if is_stateful or "TABLE" in (source.kind, sources[1].kind) or _has_aggregates(query):
        raise UnsuitableError
    properties = {*source.properties, *sources[1].properties}
    if any(each.role == "HEADERS" for each in source.columns) or test.get("properties"):
        raise UnsuitableError
    if any(each.startswith(("TIMESTAMP", "VALUE_DELIMITER")) for each in properties):
        raise UnsuitableError
    return FunctionCase(name, source, query, declared, test["inputs"], test["outputs"])


def _has_aggregates(query: Select) -> bool:
    from barnabas.pipeline.sql.functions.resolution import is_aggregate, is_table_function

    names = {each.name for item in query.items for each in item.expression.find_all(exp.Anonymous)}
    return any(
        is_aggregate(name) or is_table_function(name) or name.startswith(("TEST_U", "WHEN"))
        for name in names
    ) or any(item.expression.find(exp.Star) for item in query.items)


def _format(source: CreateSource) -> str:
    found = source.properties.get("VALUE_FORMAT") or source.properties.get("FORMAT")
    return str(found or "JSON").upper()


def _row(case: FunctionCase, record: Mapping[str, Any], offset: int) -> list[Any] | None:
    """Return the columns of a record in the order of the source, and the pseudo columns."""
    value, key = record.get("value"), record.get("key")
    if value is None:
        return None
    columns = case.source.columns
    values = [each for each in columns if each.role == "VALUE"]
    keys = [each for each in columns if each.role != "VALUE"]
    given = _named(value, [each.name for each in values], _format(case.source))
    if len(keys) == 1 and not isinstance(key, dict):
        given |= {keys[0].name: key}
    elif isinstance(key, dict):
        given |= {name.upper(): each for name, each in key.items()}
    row = [
        of_json(given.get(each.name.upper(), given.get(each.name)), _type(case, each.type))
        for each in columns
    ]
    return [*row, record.get("timestamp", 0), 0, offset]


def _named(value: Any, names: Sequence[str], form: str) -> dict[str, Any]:
    if form == "DELIMITED":
        cells = next(csv.reader([str(value)]), [])
        if len(cells) != len(names):
            raise UnsuitableError
        return {name.upper(): cell or None for name, cell in zip(names, cells, strict=True)}
    if isinstance(value, dict):
        return {name.upper(): each for name, each in value.items()}
    if len(names) == 1:
        return {names[0].upper(): value}
    raise UnsuitableError


def _type(case: FunctionCase, written: SqlType) -> SqlType:
    return resolved(written, case.declared)


def difference(case: FunctionCase, session: Any) -> str | None:
    """Return how the rows of a case differ from those that are expected, None when they do not."""
    names = {each.name: _type(case, each.type) for each in case.source.columns} | _PSEUDO
    rows = [row for at, each in enumerate(case.inputs) if (row := _row(case, each, at)) is not None]
    keys = {each.name for each in case.source.columns if each.role != "VALUE"}
    items = [
        each
        for each in case.query.items
        if not (isinstance(each.expression, exp.Column) and each.expression.name in keys)
    ]
    found = selected(
        session,
        Names(names, case.declared),
        rows,
        [each.expression for each in items],
        case.query.where,
    )
    outputs = [each for each in case.outputs if each["value"] is not None]
    if len(found.rows) != len(outputs):
        return f"{len(found.rows)} rows instead of {len(outputs)}: {found.rows}"
    labels = _labels(case)
    for row, output in zip(found.rows, outputs, strict=True):
        given = _named(
            output["value"], labels, "DELIMITED" if isinstance(output["value"], str) else "JSON"
        )
        wanted = tuple(
            _expected(given.get(name.upper()), kind)
            for name, kind in zip(labels, found.types, strict=True)
        )
        if isinstance(output["value"], str):  # an empty cell is an empty text or none
            row = tuple(None if cell == "" else cell for cell in row)
        if not same(row, wanted):
            return f"{row} instead of {wanted}"
    return None


def _expected(value: Any, kind: SqlType) -> Any:
    return of_json(value, kind)


def _labels(case: FunctionCase) -> list[str]:
    """Return the names of the value columns of the result."""
    keys = {each.name for each in case.source.columns if each.role != "VALUE"}
    names = [each.name for each in case.source.columns]
    labels: list[str] = []
    unnamed = 0
    for item in case.query.items:
        node = item.expression
        if isinstance(node, exp.Column) and node.name in keys:
            continue
        if item.alias:
            labels.append(item.alias)
        elif isinstance(node, exp.Column):
            labels.append(node.name)
        elif isinstance(node, exp.Dot):
            labels.append(_free(node.expression.name, {*labels, *names}))
        else:
            labels.append(f"KSQL_COL_{unnamed}")
            unnamed += 1
    return labels


def _free(name: str, taken: set[str]) -> str:
    """Return the name, with a number when another column has it."""
    numbered = (f"{name}_{number}" for number in itertools.count(1))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def main() -> None:
    """Print the cases that differ, and the number that passed for each function."""
    arguments = argparse.ArgumentParser(description="Evaluate expressions of ksqlDB's tests.")
    arguments.add_argument("--cases", type=Path, required=True, metavar="DIR")
    arguments.add_argument("--only", default="", metavar="TEXT", help="cases with this in the name")
    given = arguments.parse_args()
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    counts: Counter[bool] = Counter()
    with tempfile.TemporaryDirectory() as directory:
        process = SparkProcess.start(
            SessionSettings(Path(directory), master="local[1]", is_short_lived=True)
        )
        for case in function_cases(given.cases):
            if given.only in case.name:
                reason = _reason(case, process.session)
                counts[reason is None] += 1
                (failed if reason else passed).update(case.calls())
                if reason:
                    print(f"{case.name}: {reason}", flush=True)
        process.stop()
    for name in sorted({*passed, *failed}):
        print(f"{name}: passed {passed[name]}, failed {failed[name]}")
    print(f"cases: passed {counts[True]}, failed {counts[False]}")


def _reason(case: FunctionCase, session: Any) -> str | None:
    try:
        return difference(case, session)
    except UnsuitableError:
        return "the records have another form than the tool reads"
    except Exception as error:  # a tool reports all failures of its cases
        return f"{type(error).__name__}: {str(error)[:300]}"


if __name__ == "__main__":
    main()
