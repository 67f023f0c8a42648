"""Answers of statements as ksqlDB's JSON: an entity with its kind in "@type"."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.sql.shell import answer_values as av

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.functions.function_values import Function
    from barnabas.pipeline.sql.sql_types import SqlType

SUCCESS: Final = "SUCCESS"
_Fields = tuple[str, dict[str, Any]]


def entity(answer: av.Answer, statement: str, sequence: int = -1) -> dict[str, Any] | None:
    """Return the JSON of an answer; None for statements that answer nothing, and for rows."""
    if isinstance(answer, av.Message | av.Rows | av.PrintedRecords):
        return None
    kind, fields = _fields(answer, sequence)
    warnings: list[dict[str, str]] = []
    if isinstance(answer, av.CommandDone):
        warnings = [{"message": each} for each in answer.warnings]
    return {"@type": kind, "statementText": statement, **fields, "warnings": warnings}


_Table = (
    av.CommandDone
    | av.Skipped
    | av.SourceList
    | av.QueryList
    | av.TopicList
    | av.SourceDetails
    | av.SourceDetailsList
    | av.QueryDetails
    | av.PropertyList
    | av.FunctionList
    | av.FunctionDetails
    | av.TypeList
    | av.VariableList
    | av.AssertedTopic
    | av.AssertedSchema
)


def _fields(answer: _Table, sequence: int) -> _Fields:
    if isinstance(answer, av.CommandDone):
        return "currentStatus", _command(answer, sequence)
    if isinstance(answer, av.AssertedTopic):
        return "assert_topic", {"topicName": answer.topic, "exists": answer.exists}
    if isinstance(answer, av.AssertedSchema):
        return "assert_schema", asdict(answer)
    if isinstance(answer, av.Skipped):
        return "warning_entity", {"message": answer.warning}
    if isinstance(answer, av.SourceList):
        name = f"{answer.kind.lower()}s"
        return name, {name: [_source(each) for each in answer.sources]}
    if isinstance(answer, av.QueryList):
        return "queries", {"queries": [_query(each) for each in answer.queries]}
    if isinstance(answer, av.TopicList):
        rows = [{"name": each.name, "replicaInfo": list(each.replicas)} for each in answer.topics]
        return "kafka_topics", {"topics": rows}
    if isinstance(answer, av.SourceDetails):
        return "sourceDescription", {"sourceDescription": source_details(answer)}
    if isinstance(answer, av.SourceDetailsList):
        found = [source_details(each) for each in answer.sources]
        return "source_descriptions", {"sourceDescriptions": found}
    if isinstance(answer, av.QueryDetails):
        return "queryDescription", {"queryDescription": _explained(answer)}
    return _named(answer)


def _named(
    answer: av.PropertyList | av.FunctionList | av.FunctionDetails | av.TypeList | av.VariableList,
) -> _Fields:
    if isinstance(answer, av.PropertyList):
        return "properties", _properties(answer.properties)
    if isinstance(answer, av.FunctionList):
        rows = [
            {"name": each.name, "type": each.kind, "category": each.category}
            for each in answer.functions
        ]
        return "function_names", {"functions": rows}
    if isinstance(answer, av.FunctionDetails):
        return "describe_function", _function(answer.function)
    if isinstance(answer, av.TypeList):
        types = {name: schema_of(each) for name, each in answer.types.items()}
        return "type_list", {"types": types}
    variables = [{"name": name, "value": each} for name, each in answer.variables.items()]
    return "variables", {"variables": variables}


def _command(answer: av.CommandDone, sequence: int) -> dict[str, Any]:
    return {
        "commandId": answer.command_id,
        "commandStatus": {
            "status": SUCCESS,
            "message": answer.message,
            "queryId": answer.query_id,
        },
        "commandSequenceNumber": sequence,
    }


def _source(source: Source) -> dict[str, Any]:
    return {
        "type": source.kind,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "isWindowed": source.window is not None,
    }


def _query(query: av.RunningQuery) -> dict[str, Any]:
    found: dict[str, Any] = {"phase": "building"} if query.is_building else {}
    return found | {
        "queryString": query.text,
        "sinks": [] if query.sink is None else [query.sink],
        "sinkKafkaTopics": [] if query.sink_topic is None else [query.sink_topic],
        "id": query.id,
        "statusCount": {query.state: 1},
        "queryType": query.kind,
        "state": query.state,
    }


def source_details(answer: av.SourceDetails) -> dict[str, Any]:
    """Return the JSON of DESCRIBE."""
    source, topic = answer.source, answer.topic
    return {
        "name": source.name,
        "windowType": None if source.window is None else source.window.kind,
        "readQueries": [_query(each) for each in answer.readers],
        "writeQueries": [_query(each) for each in answer.writers],
        "fields": _source_fields(source),
        "type": source.kind,
        "timestamp": "" if source.timestamp is None else source.timestamp.column,
        "statistics": "",
        "errorStats": "",
        "extended": answer.is_extended,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "topic": source.topic,
        "partitions": 0 if topic is None else len(topic.replicas),
        "replication": 0 if topic is None else max(topic.replicas, default=0),
        "statement": answer.statement,
        "queryOffsetSummaries": [],
        "sourceConstraints": [],
        "clusterStatistics": [],
        "clusterErrorStats": [],
    }


def _source_fields(source: Source) -> list[dict[str, Any]]:
    rows = [column_json(each.name, each.type, "KEY") for each in source.key]
    rows += [column_json(each.name, each.type) for each in source.value]
    for each in source.headers:
        header = column_json(each.name, each.type, "HEADER")
        rows.append(header if each.header is None else {**header, "headerKey": each.header})
    return rows


def _explained(answer: av.QueryDetails) -> dict[str, Any]:
    query = answer.query
    key = [column_json(each.name, each.type, "KEY") for each in answer.key]
    return {
        "id": query.id,
        "statementText": query.text,
        "windowType": None,
        "fields": key + [column_json(each.name, each.type) for each in answer.columns],
        "sources": list(query.reads),
        "sinks": [] if query.sink is None else [query.sink],
        "topology": answer.topology,
        "executionPlan": answer.plan,
        "overriddenProperties": {},
        "ksqlHostQueryStatus": {},
        "queryType": query.kind,
        "queryErrors": [],
        "tasksMetadata": [],
        "consumerGroupId": None,
        "state": query.state,
    }


def column_json(name: str, kind: SqlType, role: str | None = None) -> dict[str, Any]:
    """Return the JSON of a column; those of keys have the role KEY."""
    found = {"name": name, "schema": schema_of(kind)}
    return found if role is None else {**found, "type": role}


def schema_of(kind: SqlType) -> dict[str, Any]:
    """Return the JSON of a type."""
    found: dict[str, Any] = {"type": kind.name, "fields": None, "memberSchema": None}
    if kind.name == "STRUCT":
        found["fields"] = [column_json(name, each) for name, each in kind.fields]
    elif kind.elements:
        found["memberSchema"] = schema_of(kind.element)
    elif kind.name == "DECIMAL" and kind.numbers:
        found["parameters"] = {"precision": kind.precision, "scale": kind.scale}
    return found


def _properties(properties: Sequence[av.SqlProperty]) -> dict[str, Any]:
    rows = [
        {
            "name": each.name,
            "scope": "KSQL",
            "value": each.value,
            "editable": False,
            "level": "SERVER",
        }
        for each in properties
    ]
    return {
        "properties": rows,
        "overwrittenProperties": [each.name for each in properties if each.is_set],
        "defaultProperties": [each.name for each in properties if not each.is_set],
    }


def _function(function: Function) -> dict[str, Any]:
    forms: list[Mapping[str, Any]] = []
    for each in function.signatures:
        last = len(each.parameters) - 1
        arguments = [
            {
                "name": "",
                "type": str(parameter),
                "description": "",
                "isVariadic": each.variadic and number == last,
            }
            for number, parameter in enumerate(each.parameters)
        ]
        returns = "" if callable(each.returns) else str(each.returns)
        forms.append(
            {"arguments": arguments, "returnType": returns, "description": function.description}
        )
    return {
        "name": function.name,
        "description": function.description,
        "author": "",
        "version": "",
        "path": "internal",
        "functions": forms,
        "type": function.kind,
    }
