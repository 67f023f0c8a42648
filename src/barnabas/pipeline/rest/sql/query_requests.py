"""POST /query, /query-stream and /close-query: rows that are sent as they come.

A query ends with its response: when its client closes the connection, behind its last row, and when
/close-query names it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from barnabas.http.asgi import Body, respond
from barnabas.pipeline.rest.sql.query_runs import rows_taken, running_query, until_gone
from barnabas.pipeline.rest.sql.request_bodies import (
    SqlRequest,
    json_object,
    read_body,
    statement_request,
)
from barnabas.pipeline.rest.sql.row_formats import FORMATS, JSON, V1_JSON, dumps
from barnabas.pipeline.rest.sql.sql_errors import BAD_REQUEST, SqlRestError
from barnabas.pipeline.sql.shell.answer_values import PrintedRecords, Rows

if TYPE_CHECKING:
    from barnabas.pipeline.rest.sql.row_formats import RowFormat
    from barnabas.pipeline.rest.sql.sql_api import SqlCall

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
    async with running_query(call, request) as answer:
        if isinstance(answer, PrintedRecords):
            await until_gone(call.receive, partial(_print, call, answer))
        else:
            await until_gone(call.receive, partial(_send, call, answer, FORMATS[kind](answer)))


async def _send(call: SqlCall, rows: Rows, form: RowFormat) -> None:
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


async def _print(call: SqlCall, records: PrintedRecords) -> None:
    """Send the lines of records up to the last one, or up to an error, which is the last line."""
    await _start(call, _TEXT)
    try:
        while (found := await rows_taken(call, records)) is not None:
            await _part(call, "".join(f"{row[0]}\n" for row in found).encode())
    except SqlRestError as error:
        await _part(call, f"{error.message}\n".encode(), more=False)
    else:
        await _part(call, b"", more=False)


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
