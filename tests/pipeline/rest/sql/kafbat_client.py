"""The requests that Kafbat UI, and kafka-ui before it, send to a ksqlDB server, and their answers.

Both send one statement at a time: SELECT to /query, whose array is read element by element while it
arrives, and others to /ksql. Each answer becomes a table with a title, names of columns and rows.
"""

import json
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import httpx

KSQL_JSON = "application/vnd.ksql.v1+json"
_TITLES = {
    "queries": ("Queries", "queries"),
    "streams": ("Streams", "streams"),
    "tables": ("Tables", "tables"),
    "kafka_topics": ("Topics", "topics"),
    "source_descriptions": ("Source descriptions", "sourceDescriptions"),
    "function_names": ("Function Names", "functions"),
}
_OBJECTS = {
    "sourceDescription": "Source Description",
    "queryDescription": "Queries Description",
}
_FUNCTION = ("name", "author", "version", "description", "functions", "path", "type")


class Table(NamedTuple):
    """One answer on the page."""

    title: str
    columns: list[str]
    rows: list[list[Any]]
    is_error: bool = False

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def statement_tables(
    api: httpx.Client, text: str, properties: dict[str, str] | None = None
) -> list[Table]:
    """Run a statement; an answer without entities is a success."""
    answer = api.post(
        "/ksql",
        headers={"Accept": KSQL_JSON, "Content-Type": "application/json"},
        content=_body(text, properties),
    )
    if answer.is_error:
        return [_error(answer)]
    found = [table for each in answer.json() for table in _entity_tables(each)]
    return found or [Table("Query Result", ["Result"], [["Success"]])]


def select_tables(
    api: httpx.Client, text: str, properties: dict[str, str] | None = None
) -> Generator[Table]:
    """Yield the columns of a SELECT, then a table for each row when it comes."""
    types = {"Accept": KSQL_JSON, "Content-Type": KSQL_JSON}
    content = _body(text, properties)
    with api.stream("POST", "/query", headers=types, content=content) as answer:
        if answer.is_error:
            answer.read()
            yield _error(answer)
            return
        for element in _elements(answer.iter_text()):
            if element.get("header"):
                yield Table("Schema", _schema_columns(element["header"]["schema"]), [])
            elif element.get("row"):
                yield Table("Row", [], [element["row"]["columns"]])
            elif element.get("errorMessage") is not None:
                raise ValueError(f"Error: {element['errorMessage']}")


def _body(text: str, properties: dict[str, str] | None) -> bytes:
    return json.dumps({"ksql": text, "streamsProperties": properties}).encode()


def _elements(parts: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects of an array, each when its last character is there."""
    decoder = json.JSONDecoder()
    rest = next(parts)
    assert rest[0] == "[", rest
    rest = rest[1:]
    while True:
        rest = rest.lstrip(" \r\n,")
        try:
            found, end = decoder.raw_decode(rest)
        except json.JSONDecodeError:
            more = next(parts, None)
            if more is None:
                assert rest.strip() == "]", rest
                return
            rest += more
            continue
        yield found
        rest = rest[end:]


def _schema_columns(schema: str) -> list[str]:
    """Return the columns of a header; the page takes the comma of DECIMAL(4, 2) for an end."""
    found, depth, is_quoted = [""], 0, False
    for each in schema:
        depth += (each == "<") - (each == ">")
        is_quoted ^= each == "`"
        if each == "," and not depth and not is_quoted:
            found.append("")
        elif each != " " or found[-1]:
            found[-1] += each
    return found


def _entity_tables(entity: dict[str, Any]) -> list[Table]:
    kind = entity.get("@type", "unknown")
    if kind == "currentStatus":
        return [_object("Status", entity["commandStatus"], ("status", "message"))]
    if kind == "properties":
        names = ("properties", "overwrittenProperties")
        return [_array(name, entity[name]) for name in names if entity.get(name)]
    if kind in _TITLES:
        title, name = _TITLES[kind]
        return [_array(title, entity[name])]
    if kind in _OBJECTS:
        return [_object(_OBJECTS[kind], entity[kind])]
    if kind == "describe_function":
        return [_object("Function description", entity, _FUNCTION)]
    return [_object("Ksql Response", entity)]


def _array(title: str, rows: list[Any]) -> Table:
    """Return a table with the members that any of the objects has; texts have none."""
    objects = [each if isinstance(each, dict) else {} for each in rows]
    columns = list(dict.fromkeys(name for each in objects for name in each))
    return Table(title, columns, [[each.get(name) for name in columns] for each in objects])


def _object(title: str, found: dict[str, Any], columns: tuple[str, ...] | None = None) -> Table:
    names = list(columns or found)
    return Table(title, names, [[found.get(name) for name in names]])


def _error(answer: httpx.Response) -> Table:
    return _object("Execution error", answer.json())._replace(is_error=True)
