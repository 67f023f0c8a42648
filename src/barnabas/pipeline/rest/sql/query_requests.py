"""POST /query, /query-stream and /close-query: rows that are sent as they come.

A query ends with its response: when its client closes the connection, behind its last row, and when
/close-query names it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from barnabas.http.asgi import Body, respond
from barnabas.pipeline.rest.sql.request_bodies import (
    SqlRequest,
    json_object,
    read_body,
    statement_request,
)
from barnabas.pipeline.rest.sql.row_formats import FORMATS, JSON, V1_JSON, dumps
from barnabas.pipeline.rest.sql.sql_context import failure
from barnabas.pipeline.rest.sql.sql_errors import BAD_REQUEST, BAD_STATEMENT, SqlRestError
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.scripts import StatementText, parse_statement, statement_texts
from barnabas.pipeline.sql.shell.answer_values import PrintedRecords, Rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from barnabas.pipeline.rest.sql.row_formats import RowFormat
    from barnabas.pipeline.rest.sql.sql_api import SqlCall
    from barnabas.pipeline.sql.shell.session_statements import SessionStatements

_WAIT_S: Final = 0.5
_TEXT: Final = "text/plain; charset=utf-8"


async def query(call: SqlCall) -> None:
    """Send the rows of a SELECT, or the records of PRINT."""
    request = statement_request(await read_body(call.receive), "ksql", "streamsProperties")
    kind = V1_JSON if call.accepted == JSON else call.accepted
    await _query(call, request, kind)


async def query_stream(call: SqlCall) -> None:
    """Send the rows of a SELECT."""
    request = statement_request(await read_body(call.receive), "sql", "properties")
    await _query(call, request, call.accepted)


async def _query(call: SqlCall, request: SqlRequest, kind: str) -> None:
    session = call.context.session(request)
    source, statement = await _statement(call, session, request)
    is_push = isinstance(statement, st.PrintTopic) or statement.emit is not None
    with call.context.queries.reserved(is_push=is_push):
        text = f"{source.text};"
        answer = await call.context.run(partial(session.run, statement, source), text)
        if isinstance(answer, PrintedRecords):
            await _until_gone(call, partial(_print, call, answer))
        elif isinstance(answer, Rows):
            with call.context.queries.running(answer):
                await _until_gone(call, partial(_send, call, answer, FORMATS[kind](answer)))


async def _statement(
    call: SqlCall, session: SessionStatements, request: SqlRequest
) -> tuple[StatementText, st.Select | st.PrintTopic]:
    """Return the query of a request; SET and DEFINE before it hold for it. Raises SqlRestError."""
    found: tuple[StatementText, st.Select | st.PrintTopic] | None = None
    for source in statement_texts(request.text):
        text = f"{source.text};"
        if found is not None:
            raise SqlRestError(BAD_STATEMENT, "A request has one query, as its last statement")
        try:
            statement = parse_statement(source, session.variables)
        except ValueError as error:
            raise failure(error, text) from None
        if isinstance(statement, st.SetProperty | st.DefineVariable):
            await call.context.run(partial(session.run, statement, source), text)
        elif isinstance(statement, st.Select | st.PrintTopic):
            await call.caller.check(statement, session.catalog)
            found = source, statement
        else:
            message = "Only SELECT and PRINT run here: send other statements to the endpoint /ksql"
            raise SqlRestError(BAD_STATEMENT, message, text)
    if found is None:
        raise SqlRestError(BAD_STATEMENT, "There is no statement: send a SELECT")
    return found


async def _until_gone(call: SqlCall, send: Callable[[], Awaitable[None]]) -> None:
    """Send a response, and stop when the client closes its connection."""
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            while (await call.receive())["type"] != "http.disconnect":
                pass
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await send()
        nursery.cancel_scope.cancel()


async def _send(call: SqlCall, rows: Rows, form: RowFormat) -> None:
    """Send rows up to the last one."""
    try:
        await _start(call, form.content_type)
        await _part(call, form.head())
        try:
            while (found := await _taken(call, rows)) is not None:
                if found:
                    await _part(call, form.rows(found))
        except SqlRestError as error:
            await _part(call, form.failed(error), more=False)
        else:
            await _part(call, form.end(), more=False)
    finally:
        await _close(rows)


async def _print(call: SqlCall, records: PrintedRecords) -> None:
    """Send the lines of records up to the last one."""
    try:
        await _start(call, _TEXT)
        while (found := await _taken(call, records)) is not None:
            await _part(call, "".join(f"{row[0]}\n" for row in found).encode())
        await _part(call, b"", more=False)
    finally:
        await _close(records)


async def _taken(call: SqlCall, rows: Rows | PrintedRecords) -> list[Sequence[Any]] | None:
    return await call.context.run(partial(rows.source.take, _WAIT_S))


async def _close(rows: Rows | PrintedRecords) -> None:
    """End a query, also when the request was cancelled."""
    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(rows.source.close)


async def _start(call: SqlCall, kind: str) -> None:
    headers = [(b"content-type", kind.encode())]
    await call.send({"type": "http.response.start", "status": 200, "headers": headers})


async def _part(call: SqlCall, data: bytes, *, more: bool = True) -> None:
    await call.send({"type": "http.response.body", "body": data, "more_body": more})


async def close(call: SqlCall) -> None:
    """End a push query. Raises SqlRestError when there is none of this id."""
    query_id = json_object(await read_body(call.receive)).get("queryId")
    rows = call.context.queries.find(str(query_id))
    if rows is None:
        raise SqlRestError(BAD_REQUEST, f"No query with id {query_id}")
    await trio.to_thread.run_sync(rows.source.close)
    await respond(call.send, 200, Body(call.accepted.encode(), dumps({})))
