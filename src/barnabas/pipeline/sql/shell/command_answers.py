"""Answers to statements that have changed the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.shell.answer_values import CommandDone, Skipped

if TYPE_CHECKING:
    from barnabas.pipeline.sql.analysis.applied_statements import Definition
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.shell.catalog_change import AppliedChange


def done(statement: Definition, change: AppliedChange) -> CommandDone | Skipped:
    """Return the answer to a statement, and to the query that it has started."""
    unchanged = _unchanged(statement, change.catalog) if change.is_unchanged else None
    return unchanged or _changed(statement, change)


def _unchanged(statement: Definition, catalog: Catalog) -> CommandDone | Skipped | None:
    """Return the answer to IF NOT EXISTS or IF EXISTS that had nothing to do; None to others."""
    if isinstance(statement, st.CreateSource):
        kind = statement.kind.lower()
        return Skipped(
            f"Cannot add {kind} `{statement.name}`: A {kind} with the same name already exists."
        )
    if isinstance(statement, st.DropSource):
        text = f"Source `{statement.name}` does not exist."
        return CommandDone(text, _id(statement.kind, statement.name, "drop"))
    if isinstance(statement, st.CreateType):
        text = f"{statement.name} is already registered with type {catalog.types[statement.name]}"
        return CommandDone(text, _id("type", statement.name, "create"))
    if isinstance(statement, st.DropType):
        text = f"Type '{statement.name}' does not exist"
        return CommandDone(text, _id("type", statement.name, "drop"))
    return None


def _changed(statement: Definition, change: AppliedChange) -> CommandDone:
    started = change.started
    if started is not None:
        sink = started.query.sink
        if change.is_built:
            text = f"started query {started.name}, which rebuilds {sink.name} to replace it"
        else:
            text = f"started query {started.name}, which writes the topic {sink.topic}"
        command = _id(sink.kind, sink.name, "create")
        return CommandDone(text, command, started.name, change.warnings)
    if isinstance(statement, st.CreateSource):
        text = f"created {statement.kind.lower()} {statement.name}"
        command = _id(statement.kind, statement.name, "create")
        return CommandDone(text, command, warnings=change.warnings)
    if isinstance(statement, st.DropSource):
        text = f"dropped {statement.kind.lower()} {statement.name}"
        return CommandDone(text, _id(statement.kind, statement.name, "drop"))
    if isinstance(statement, st.AddColumns):
        text = f"added columns to {statement.name}"
        return CommandDone(text, _id(statement.kind, statement.name, "alter"))
    if isinstance(statement, st.CreateType):
        return CommandDone(f"created type {statement.name}", _id("type", statement.name, "create"))
    if isinstance(statement, st.DropType):
        return CommandDone(f"dropped type {statement.name}", _id("type", statement.name, "drop"))
    if isinstance(statement, st.QueryControl):
        return controlled(statement, f"terminated {statement.query or 'all queries'}")
    return CommandDone("done", _id("stream", statement.target, "create"))


def controlled(statement: st.QueryControl, message: str) -> CommandDone:
    """Return the answer to PAUSE, RESUME or TERMINATE."""
    return CommandDone(message, f"{statement.action.lower()}/{statement.query or 'all'}/execute")


def _id(kind: str, name: str, action: str) -> str:
    return f"{kind.lower()}/`{name}`/{action}"
