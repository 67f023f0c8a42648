"""GET /ws/query: a query over a WebSocket, whose answer is frames of text.

The parameter `request` of the URL has the JSON of POST /query. The first frame is an array with the
columns, which PRINT does not have, then each row has a frame. The last frame has the reason of the
end, and so has the close frame, as far as it fits. Frames of the client are read and left.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import attrs

from barnabas.pipeline.rest.sql.entity_json import column_json
from barnabas.pipeline.rest.sql.query_runs import rows_taken, running_query, until_gone
from barnabas.pipeline.rest.sql.request_bodies import statement_request
from barnabas.pipeline.rest.sql.row_formats import dumps, row_json
from barnabas.pipeline.rest.sql.sql_errors import (
    BAD_REQUEST,
    NOT_READY,
    SEQUENCE_UNKNOWN,
    SERVER_ERROR,
    SqlRestError,
)
from barnabas.pipeline.sql.shell.answer_values import Rows

if TYPE_CHECKING:
    from barnabas.http.asgi import Scope, Send
    from barnabas.pipeline.rest.sql.request_bodies import SqlRequest
    from barnabas.pipeline.rest.sql.sql_api import SqlCall
    from barnabas.pipeline.sql.shell.answer_values import PrintedRecords

_VERSION: Final = "1"
_REASON_BYTES_MAX: Final = 123
_CUT: Final = "..."


@attrs.frozen
class SocketEnd:
    """The end of a WebSocket: its code, and the reason."""

    code: int
    reason: str

    @classmethod
    def of(cls, error: SqlRestError) -> SocketEnd:
        """Return the end for an error: 1003 for the client's, 1013 for one that passes, or 1011."""
        if error.code in (NOT_READY, SEQUENCE_UNKNOWN):
            return cls(1013, error.message)
        return cls(1011 if error.code >= SERVER_ERROR else 1003, error.message)

    async def send(self, send: Send) -> None:
        """Send the reason in a frame of text and in the close frame, which takes 123 bytes."""
        await _text(send, {"error": self.reason})
        await send({"type": "websocket.close", "code": self.code, "reason": _cut(self.reason)})


_DONE: Final = SocketEnd(1000, "done")


async def query(call: SqlCall) -> None:
    """Send the rows of a SELECT or the records of PRINT. Raises SqlRestError before the first."""
    request = _request(call.scope)
    call.context.check_sequence(request)
    async with running_query(call, request) as answer:
        await until_gone(call.receive, partial(_send, call, answer))


def _request(scope: Scope) -> SqlRequest:
    """Return the request in a URL. Raises SqlRestError."""
    given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    if given.get("version", _VERSION) != _VERSION:
        raise SqlRestError(
            BAD_REQUEST, f"There is no version {given['version']} of this API: send version=1"
        )
    if "request" not in given:
        raise SqlRestError(
            BAD_REQUEST,
            'The URL needs the parameter request, whose value is JSON such as {"ksql": "SELECT '
            '..;"} in percent-encoding',
        )
    try:
        return statement_request(given["request"].encode(), "ksql", "streamsProperties")
    except SqlRestError as error:
        message = f"The parameter request is not that of a query: {error.message}"
        raise SqlRestError(error.code, message) from None


async def _send(call: SqlCall, answer: Rows | PrintedRecords) -> None:
    """Send columns, rows and the end."""
    try:
        if isinstance(answer, Rows):
            await _text(call.send, _columns(answer))
        while (found := await rows_taken(call, answer)) is not None:
            for row in found:
                each = {"row": row_json(row)} if isinstance(answer, Rows) else row[0]
                await _text(call.send, each)
    except SqlRestError as error:
        await SocketEnd.of(error).send(call.send)
    else:
        await _DONE.send(call.send)


def _columns(rows: Rows) -> list[dict[str, Any]]:
    key = rows.table_key or ()
    return [
        column_json(each.name, each.type, "KEY" if each.name in key else None)
        for each in rows.columns
    ]


async def _text(send: Send, value: Any) -> None:
    await send({"type": "websocket.send", "text": dumps(value).decode()})


def _cut(reason: str) -> str:
    """Return as much of a reason as a close frame takes."""
    data = reason.encode()
    if len(data) <= _REASON_BYTES_MAX:
        return reason
    return data[: _REASON_BYTES_MAX - len(_CUT)].decode(errors="ignore") + _CUT
