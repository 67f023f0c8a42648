"""Answers as tables of texts, which the command prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.pipeline.sql.shell import answer_values as av

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.sql.catalog.source_values import Source

Table = (
    av.SourceList
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
)
"""The answers that are tables."""


@dataclass(frozen=True)
class Listing:
    """Rows of texts with the names of their columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def listings(answer: Table) -> list[Listing]:
    """Return the tables of an answer."""
    if isinstance(answer, av.SourceDetails):
        return _details(answer, "column")
    if isinstance(answer, av.SourceDetailsList):
        named = [(each, f"column of {each.source.name}") for each in answer.sources]
        return [table for each, head in named for table in _details(each, head)]
    if isinstance(answer, av.QueryDetails):
        return [_queries((answer.query,)), Listing(("plan",), [(answer.plan or "-",)])]
    return [_listing(answer)]


def _listing(
    answer: av.SourceList
    | av.QueryList
    | av.TopicList
    | av.PropertyList
    | av.FunctionList
    | av.FunctionDetails
    | av.TypeList
    | av.VariableList,
) -> Listing:
    if isinstance(answer, av.SourceList):
        return _sources(answer)
    if isinstance(answer, av.QueryList):
        return _queries(answer.queries)
    if isinstance(answer, av.TopicList):
        rows = [(each.name, len(each.replicas), max(each.replicas)) for each in answer.topics]
        return Listing(("topic", "partitions", "replicas"), rows)
    if isinstance(answer, av.PropertyList):
        values = [(each.name, each.value) for each in answer.properties]
        return Listing(("property", "value"), values)
    if isinstance(answer, av.FunctionList):
        functions = [(each.name, each.kind, each.category) for each in answer.functions]
        return Listing(("function", "kind", "category"), functions)
    if isinstance(answer, av.FunctionDetails):
        forms = [(f"{answer.function.name}{each}",) for each in answer.function.signatures]
        return Listing((answer.function.description,), forms)
    if isinstance(answer, av.TypeList):
        return Listing(("type", "is"), [(name, str(each)) for name, each in answer.types.items()])
    return Listing(("variable", "value"), list(answer.variables.items()))


def _sources(answer: av.SourceList) -> Listing:
    rows = [
        (
            each.name,
            each.topic,
            each.key_format.name,
            each.value_format.name,
            "-" if each.window is None else each.window.kind,
        )
        for each in answer.sources
    ]
    return Listing((answer.kind.lower(), "topic", "key format", "value format", "windows"), rows)


def _queries(queries: Sequence[av.RunningQuery]) -> Listing:
    rows = [
        (
            each.id,
            each.sink,
            ", ".join(each.reads),
            f"{each.state}, building" if each.is_building else each.state,
        )
        for each in queries
    ]
    return Listing(("query", "writes", "reads", "state"), rows)


def _details(answer: av.SourceDetails, head: str) -> list[Listing]:
    tables = [Listing((head, "type"), _columns(answer.source))]
    if answer.is_extended:
        tables.append(Listing(("property", "value"), _places(answer)))
        queries = (*answer.readers, *answer.writers)
        if queries:
            tables.append(_queries(queries))
    return tables


def _columns(source: Source) -> list[tuple[str, str]]:
    role = "primary key" if source.is_table else "key"
    rows = [(each.name, f"{each.type} ({role})") for each in source.key]
    rows += [(each.name, str(each.type)) for each in source.value]
    return rows + [(each.name, f"{each.type} (headers)") for each in source.headers]


def _places(answer: av.SourceDetails) -> list[tuple[str, object]]:
    source, topic = answer.source, answer.topic
    rows: list[tuple[str, object]] = [
        (source.kind.lower(), source.name),
        ("topic", source.topic),
        ("key format", source.key_format.name),
        ("value format", source.value_format.name),
        ("timestamp", None if source.timestamp is None else source.timestamp.column),
    ]
    if topic is not None:
        rows += [("partitions", len(topic.replicas)), ("replicas", max(topic.replicas))]
    return rows
