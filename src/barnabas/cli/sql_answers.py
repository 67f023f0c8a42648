"""ksqlDB's answers as the tables and lines that `barnabas sql --server` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from barnabas.cli.sql_output import Line, Table
from barnabas.pipeline.sql.shell.answer_values import AssertedSchema, AssertedTopic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.cli.sql_output import Shown

_SOURCE_FIELDS = ("name", "topic", "keyFormat", "valueFormat", "isWindowed")
_LISTS: dict[str, tuple[str, Sequence[str]]] = {
    "streams": ("streams", _SOURCE_FIELDS),
    "tables": ("tables", _SOURCE_FIELDS),
    "queries": ("queries", ("id", "sinks", "state", "queryString")),
    "kafka_topics": ("topics", ("name", "replicaInfo")),
    "properties": ("properties", ("name", "value")),
    "function_names": ("functions", ("name", "type", "category")),
    "variables": ("variables", ("name", "value")),
    "connector_list": ("connectors", ("name", "type", "className", "state")),
    "connector_plugins_list": ("connectorsPlugins", ("className", "type", "version")),
}
"""By the kind of an answer: the name of its list, and the columns to show."""


def shown_entity(answer: dict[str, Any]) -> Iterator[Shown]:
    """Yield what to print of an answer, warnings last."""
    kind = answer["@type"]
    if kind in _LISTS:
        yield _list(kind, answer[_LISTS[kind][0]])
    elif kind == "currentStatus":
        yield Line(answer["commandStatus"]["message"])
    elif kind in ("assert_topic", "assert_schema"):
        yield Line(_asserted(answer))
    elif kind == "warning_entity":
        yield Line(f"warning: {answer['message']}")
    elif kind == "sourceDescription":
        yield from _source(answer["sourceDescription"], "column")
    elif kind == "source_descriptions":
        for each in answer["sourceDescriptions"]:
            yield from _source(each, f"column of {each['name']}")
    elif kind == "queryDescription":
        found = answer["queryDescription"]
        yield Line(f"{found['id']}: {found['statementText']}")
        yield Line(found["executionPlan"])
    elif kind == "connector_info":
        yield Line(f"created connector {answer['info']['name']}")
    elif kind == "drop_connector":
        yield Line(f"dropped connector {answer['connectorName']}")
    elif kind == "connector_description":
        yield from _connector(answer)
    elif kind == "type_list":
        yield Table(
            ("name", "type"), [(name, type_text(each)) for name, each in answer["types"].items()]
        )
    elif kind == "describe_function":
        forms = [(_form(answer["name"], each),) for each in answer["functions"]]
        yield Table((answer["description"],), forms)
    for each in answer.get("warnings", ()):
        yield Line(f"warning: {each['message']}")


def _asserted(found: dict[str, Any]) -> str:
    if found["@type"] == "assert_topic":
        return AssertedTopic(found["topicName"], found["exists"]).text
    return AssertedSchema(found["subject"], found["id"], found["exists"]).text


def _source(found: dict[str, Any], head: str) -> Iterator[Shown]:
    rows = [(each["name"], _role(each)) for each in found["fields"]]
    yield Table((head, "type"), rows)
    if found["extended"]:
        fields = ("type", "name", "topic", "keyFormat", "valueFormat", "timestamp", "partitions")
        yield Table(("property", "value"), [(each, found[each]) for each in fields])
        if queries := [*found["readQueries"], *found["writeQueries"]]:
            yield _list("queries", queries)


def _list(kind: str, found: Sequence[dict[str, Any]]) -> Table:
    fields = _LISTS[kind][1]
    return Table(fields, [[_text(each.get(field)) for field in fields] for each in found])


def _connector(found: dict[str, Any]) -> Iterator[Shown]:
    status = found["status"]
    facts = {
        "name": status["name"],
        "class": found["connectorClass"],
        "type": status["type"],
        "state": status["connector"]["state"],
        "worker": status["connector"]["worker_id"],
        "topics": ", ".join(found["topics"]),
        "sources": ", ".join(each["name"] for each in found["sources"]),
    }
    yield Table(("property", "value"), list(facts.items()))
    tasks = [(each["id"], each["state"], each.get("trace", "")) for each in status["tasks"]]
    yield Table(("task", "state", "trace"), tasks)


def _role(field: dict[str, Any]) -> str:
    role = field.get("type")
    text = type_text(field["schema"])
    return text if role is None else f"{text} ({role.lower()})"


def type_text(schema: dict[str, Any]) -> str:
    """Return a type as SQL writes it."""
    kind = schema["type"]
    if kind == "STRUCT":
        fields = [f"`{each['name']}` {type_text(each['schema'])}" for each in schema["fields"]]
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "MAP":
        return f"MAP<STRING, {type_text(schema['memberSchema'])}>"
    if kind == "ARRAY":
        return f"ARRAY<{type_text(schema['memberSchema'])}>"
    if kind == "DECIMAL" and "parameters" in schema:
        return f"DECIMAL({schema['parameters']['precision']}, {schema['parameters']['scale']})"
    return kind


def _form(name: str, form: dict[str, Any]) -> str:
    arguments = ", ".join(each["type"] for each in form["arguments"])
    return f"{name}({arguments}) -> {form['returnType'] or 'by its arguments'}"


def _text(value: Any) -> Any:
    return ", ".join(map(str, cast(list[Any], value))) if isinstance(value, list) else value
