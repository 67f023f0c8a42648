"""POST /ksql and /ksql/terminate: statements other than SELECT and PRINT."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.pipeline.rest.sql.entity_json import entity
from barnabas.pipeline.rest.sql.request_bodies import json_object, read_body, statement_request
from barnabas.pipeline.rest.sql.sql_context import failure
from barnabas.pipeline.rest.sql.sql_errors import (
    BAD_REQUEST,
    QUERY_ENDPOINT,
    SEQUENCE_UNKNOWN,
    SqlRestError,
)
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.scripts import StatementText, parse_statement, statement_texts
from barnabas.pipeline.sql.shell.answer_values import CommandDone, PrintedRecords, Rows

if TYPE_CHECKING:
    from barnabas.pipeline.rest.sql.sql_api import SqlCall
    from barnabas.pipeline.sql.shell.session_statements import SessionStatements

_TERMINATE: Final = "TERMINATE CLUSTER;"
_TERMINATED: Final = "cluster/TerminateCluster/terminate"


async def statements(call: SqlCall) -> None:
    """Run the statements of a script; an error has the answers to those before it."""
    request = statement_request(await read_body(call.receive), "ksql", "streamsProperties")
    last = call.context.commands.last
    if request.sequence is not None and request.sequence > last:
        raise SqlRestError(
            SEQUENCE_UNKNOWN,
            f"The command {request.sequence} has not run: the newest one here is {last}",
        )
    session = call.context.session(request)
    entities: list[dict[str, Any]] = []
    for source in statement_texts(request.text):
        try:
            found = await _answered(call, session, source)
        except SqlRestError as error:
            text = f"{source.text};"
            raise SqlRestError(error.code, error.message, text, entities) from error
        if found is not None:
            entities.append(found)
    await call.answer(entities)


async def _answered(
    call: SqlCall, session: SessionStatements, source: StatementText
) -> dict[str, Any] | None:
    """Return the entity of a statement, which has run. Raises SqlRestError."""
    try:
        statement = parse_statement(source, session.variables)
    except ValueError as error:
        raise failure(error) from None
    if isinstance(statement, st.Select | st.PrintTopic):
        raise SqlRestError(QUERY_ENDPOINT, "SELECT and PRINT are for the endpoint /query")
    await call.caller.check(statement, session.catalog)
    answer = await call.context.run(partial(session.run, statement, source))
    if isinstance(answer, Rows | PrintedRecords):
        answer.source.close()
        return None
    sequence = -1
    if isinstance(answer, CommandDone):
        sequence = call.context.commands.add(answer.command_id, answer.message)
    return entity(answer, f"{source.text};", sequence)


async def terminate(call: SqlCall) -> None:
    """Terminate all queries and drop all sources, with the topics of queries that are listed."""
    body = json_object(await read_body(call.receive))
    patterns = _patterns(body.get("deleteTopicList"))
    session = call.context.sessions()
    await call.caller.check(st.QueryControl("TERMINATE", None), session.catalog)
    made = {each.sink for each in session.catalog.queries}
    await _run(call, session, "TERMINATE ALL")
    for source in reversed(list(session.catalog.sources.values())):
        is_listed = any(each.fullmatch(source.topic) for each in patterns)
        more = " DELETE TOPIC" if source.name in made and is_listed else ""
        await _run(call, session, f"DROP {source.kind} `{source.name}`{more}")
    message = "Queries terminated, streams and tables dropped"
    sequence = call.context.commands.add(_TERMINATED, message)
    done = entity(CommandDone(message, _TERMINATED), _TERMINATE, sequence)
    await call.answer([done])


async def _run(call: SqlCall, session: SessionStatements, text: str) -> None:
    await call.context.run(partial(session.answer, StatementText(text, 1, 1)))


def _patterns(given: object) -> list[re.Pattern[str]]:
    """Return names of topics as regular expressions. Raises SqlRestError."""
    if given is None:
        return []
    if not isinstance(given, list):
        raise SqlRestError(BAD_REQUEST, "deleteTopicList must be an array of texts")
    try:
        return [re.compile(str(each)) for each in cast(list[object], given)]
    except re.error as error:
        raise SqlRestError(
            BAD_REQUEST, f"deleteTopicList has a wrong regular expression: {error}"
        ) from None
