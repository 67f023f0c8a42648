"""Statements about connectors: requests to Connect's REST API of the same runner.

As ksqlDB sends them to Kafka Connect, with the rights of the caller. Messages are ksqlDB's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from barnabas.pipeline.rest.sql.entity_json import source_details
from barnabas.pipeline.rest.sql.sql_errors import BAD_REQUEST, BAD_STATEMENT, SqlRestError
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.shell import answer_values as av

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.rest.connect_calls import Answer, AskConnect
    from barnabas.pipeline.rest.job_rights import CallerRights
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog

_NO_CONNECT: Final = "Connectors run on runners of pipelines, and this server has none"
_CLASS: Final = "connector.class"
_WITH: Final = re.compile(r"(?is)(\s*create\s+(?:source|sink)\s+connector\b.*?\bwith\b)(.*)")
_VALUE: Final = re.compile(r"=\s*(?:'(?:[^']|'')*'?|[^\s,)']+)")
_HIDDEN: Final = "='[string]'"
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


@attrs.frozen
class Connectors:
    """The connectors of the runner, as one caller may see and change them."""

    ask: AskConnect | None
    rights: CallerRights
    catalog: Catalog

    async def answer(self, statement: st.ConnectorStatement, text: str) -> dict[str, Any]:
        """Run a statement, and return its entity. Raises SqlRestError."""
        if isinstance(statement, st.CreateConnector):
            kind, fields = await self._create(statement)
        elif isinstance(statement, st.DropConnector):
            kind, fields = await self._drop(statement)
        elif isinstance(statement, st.ShowConnectors):
            kind, fields = "connector_list", {"connectors": await self._listed(statement.kind)}
        elif isinstance(statement, st.DescribeConnector):
            kind, fields = "connector_description", await self._described(statement.name)
        else:
            kind, fields = "connector_plugins_list", {"connectorsPlugins": await self._plugins()}
        return {"@type": kind, "statementText": text, **fields, "warnings": []}

    async def _create(self, statement: st.CreateConnector) -> tuple[str, dict[str, Any]]:
        name = statement.name
        names: list[str] = await self._got("list connectors", "connectors")
        if any(each.upper() == name.upper() for each in names):
            message = f"Connector {name} already exists"
            if statement.if_not_exists:
                return "warning_entity", {"message": message}
            raise SqlRestError(_CONFLICT * 100, message)
        if not (statement.properties.get(_CLASS) or "").strip():
            raise SqlRestError(
                BAD_STATEMENT, f"Validation error: CREATE CONNECTOR {name} needs '{_CLASS}'"
            )
        body = {"name": name, "config": {**statement.properties, "name": name}}
        answer = await self._asked("POST", ["connectors"], body)
        if answer.status == BAD_REQUEST // 100:
            raise SqlRestError(BAD_STATEMENT, f"Validation error: {_message(answer)}")
        return "connector_info", {"info": _checked("create connector", answer)}

    async def _drop(self, statement: st.DropConnector) -> tuple[str, dict[str, Any]]:
        name = statement.name
        if name not in await self._got("list connectors", "connectors"):  # queries are not listed
            if statement.if_exists:
                return "warning_entity", {"message": f"Connector '{name}' does not exist."}
            message = f"Failed to drop connector: Connector {name} not found"
            raise SqlRestError(_NOT_FOUND * 100, message)
        answer = await self._asked("DELETE", ["connectors", name])
        _checked("drop connector", answer)
        return "drop_connector", {"connectorName": name}

    async def _listed(self, kind: st.ConnectorKind | None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for name in await self._got("list connectors", "connectors"):
            info = await self._asked("GET", ["connectors", name])
            if info.status == _NOT_FOUND:  # deleted just now
                continue
            described = _checked("describe connector", info)
            if kind is None or described["type"] == kind.lower():
                status = await self._asked("GET", ["connectors", name, "status"])
                state = status.body if status.status < BAD_REQUEST // 100 else None
                found.append(_listed(described, state))
        return found

    async def _described(self, name: str) -> dict[str, Any]:
        status = await self._got("query connector status", "connectors", name, "status")
        info = await self._got("describe connector", "connectors", name)
        topics = await self._got("list topics of the connector", "connectors", name, "topics")
        names: list[str] = topics[name]["topics"]
        sources = [each for each in self.catalog.sources.values() if each.topic in names]
        return {
            "connectorClass": info["config"].get(_CLASS),
            "status": status,
            "sources": [source_details(av.SourceDetails(each, "", (), ())) for each in sources],
            "topics": names,
        }

    async def _plugins(self) -> list[dict[str, Any]]:
        plugins = await self._got("list connector plugins", "connector-plugins")
        return [
            {"className": each["class"], "type": each["type"], "version": each["version"]}
            for each in plugins
        ]

    async def _got(self, what: str, *segments: str) -> Any:
        return _checked(what, await self._asked("GET", segments))

    async def _asked(self, method: str, segments: Sequence[str], body: object = None) -> Answer:
        if self.ask is None:
            raise SqlRestError(BAD_REQUEST, _NO_CONNECT)
        return await self.ask(method, segments, body, self.rights)


def _checked(what: str, answer: Answer) -> Any:
    """Return the body of an answer. Raises SqlRestError for an error, with the code of Connect."""
    if answer.status >= BAD_REQUEST // 100:
        raise SqlRestError(answer.status * 100, f"Failed to {what}: {_message(answer)}")
    return answer.body


def _message(answer: Answer) -> str:
    return str(answer.body["message"])


def _listed(info: dict[str, Any], status: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "name": info["name"],
        "type": info["type"],
        "className": info["config"].get(_CLASS),
        "state": "UNASSIGNED" if status is None else _state(status),
    }


def _state(status: dict[str, Any]) -> str:
    """Return the state of a connector with the number of its tasks that run."""
    state, tasks = status["connector"]["state"], status["tasks"]
    if state != "RUNNING":
        return state
    running = sum(each["state"] == "RUNNING" for each in tasks)
    shown = "WARNING" if tasks and not running else "RUNNING"
    return f"{shown} ({running}/{len(tasks)} tasks RUNNING)"


def shown_text(text: str) -> str:
    """Return the text of a statement for an answer: values of connectors may be secrets."""
    found = _WITH.match(text)
    if found is None:
        return f"{text};"
    return f"{found[1]}{_VALUE.sub(_HIDDEN, found[2])};"
