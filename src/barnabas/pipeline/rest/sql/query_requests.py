"""POST /query, /query-stream and /close-query: rows that are sent as they come.

A query ends with its response: when its client closes the connection, behind its last row, and when
/close-query names it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from barnabas.http.asgi import Body, respond
from barnabas.pipeline.rest.sql.query_runs import rows_taken, running_query, until_gone
from barnabas.pipeline.rest.sql.request_bodies import (
    SqlRequest,
    json_object,
    read_body,
    statement_request,
)
from barnabas.pipeline.rest.sql.row_formats import (
    FORMATS,
    JSON,
    PRINTED,
    V1_JSON,
    PrintedText,
    dumps,
)
from barnabas.pipeline.rest.sql.sql_errors import BAD_REQUEST, SqlRestError
from barnabas.pipeline.sql.shell.answer_values import PrintedRecords, Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.rest.sql.row_formats import RowFormat
    from barnabas.pipeline.rest.sql.sql_api import SqlCall


async def query(call: SqlCall) -> None:
    """Send the rows of a SELECT, or the records of PRINT."""
    request = statement_request(await read_body(call.receive), "ksql", "streamsProperties")
    kind = V1_JSON if call.accepted == JSON else call.accepted
    await _query(call, request, kind, PRINTED.get(kind, PrintedText))


async def query_stream(call: SqlCall) -> None:
    """Send the rows of a SELECT."""
    request = statement_request(await read_body(call.receive), "sql", "properties")
    await _query(call, request, call.accepted, PrintedText)


async def _query(
    call: SqlCall, request: SqlRequest, kind: str, printed: Callable[[], RowFormat]
) -> None:
    async with running_query(call, request) as answer:
        form = printed() if isinstance(answer, PrintedRecords) else FORMATS[kind](answer)
        await until_gone(call.receive, partial(_send, call, answer, form))


async def _send(call: SqlCall, rows: Rows | PrintedRecords, form: RowFormat) -> None:
    """Send rows up to the last one."""
    await _start(call, form.content_type)
    await _part(call, form.head())
    try:
        while (found := await rows_taken(call, rows)) is not None:
            if found:
                await _part(call, form.rows(found))
    except SqlRestError as error:
        await _part(call, form.failed(error), more=False)
    else:
        await _part(call, form.end(), more=False)


async def _start(call: SqlCall, kind: str) -> None:
    headers = [(b"content-type", kind.encode())]
    await call.send({"type": "http.response.start", "status": 200, "headers": headers})


async def _part(call: SqlCall, data: bytes, *, more: bool = True) -> None:
    await call.send({"type": "http.response.body", "body": data, "more_body": more})


async def close(call: SqlCall) -> None:
    """End a push query. Raises SqlRestError when there is none of this id."""
    query_id = json_object(await read_body(call.receive)).get("queryId")
    if not isinstance(query_id, str):
        raise SqlRestError(BAD_REQUEST, "The body must have the text queryId: the id of the query")
    rows = call.context.queries.find(query_id)
    if rows is None:
        raise SqlRestError(BAD_REQUEST, f"No query with id {query_id}")
    await trio.to_thread.run_sync(rows.source.close)
    await respond(call.send, 200, Body(call.accepted.encode(), dumps({})))
