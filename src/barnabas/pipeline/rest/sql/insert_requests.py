"""POST /inserts-stream: rows that are written while the request arrives, and acknowledged.

The first line of the request names the source, each other line is a row. This reads the request and
sends the response at the same time, so it is plain ASGI.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.pipeline.rest.sql.request_bodies import ClientGoneError, json_object
from barnabas.pipeline.rest.sql.row_formats import JSON, dumps
from barnabas.pipeline.rest.sql.sql_errors import (
    BAD_REQUEST,
    BAD_STATEMENT,
    SqlRestError,
)
from barnabas.pipeline.rest.sql.statement_rights import topics_of
from barnabas.pipeline.sql import exact_json
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from barnabas.http.asgi import Receive
    from barnabas.pipeline.rest.sql.sql_api import SqlCall

_LINE_BYTES_MAX: Final = 1 << 20
_ROWS_MAX: Final = 1000


async def inserts(call: SqlCall) -> None:
    """Write rows and acknowledge them; the first one that fails ends the response."""
    async with aclosing(_lines(call.receive)) as batches:
        first = await anext(batches, None)
        if first is None:
            raise SqlRestError(BAD_REQUEST, "The first line must be an object with a target")
        target = json_object(first[0]).get("target")
        if not isinstance(target, str):
            raise SqlRestError(BAD_REQUEST, "The first line must have the text target: a stream")
        inserting = _Inserting(call, _name(target))
        await inserting.check()
        await inserting.start()
        has_failed = await inserting.write(first[1:])
        async for lines in batches:
            if has_failed:
                break
            has_failed = await inserting.write(lines)
        await inserting.end()


def _name(target: str) -> str:
    """Return the name in the catalog: upper case, unless it is in back-quotes."""
    if target.startswith("`") and target.endswith("`") and len(target) > 1:
        return target[1:-1]
    return target.upper()


class _Inserting:
    """The rows of one request."""

    def __init__(self, call: SqlCall, target: str) -> None:
        self._call = call
        self._session = call.context.sessions()
        self._target = target
        self._sequence = 0
        self._is_array = call.accepted == JSON

    async def check(self) -> None:
        """Raise SqlRestError when there is no such source, or the caller may not write."""
        try:
            self._session.catalog.source(self._target)
        except UnresolvedError as error:
            raise SqlRestError(BAD_STATEMENT, str(error)) from None
        statement = st.InsertValues(self._target, (), ())
        topics = topics_of(statement, self._session.catalog)
        await self._call.caller.check_topics(topics, is_change=True)

    async def start(self) -> None:
        """Send the head of the response, before the first row is there."""
        headers = [(b"content-type", self._call.accepted.encode())]
        await self._call.send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send(b"[" if self._is_array else b"")

    async def write(self, lines: list[bytes]) -> bool:
        """Write rows and send their acknowledgements; return True after one that failed."""
        rows: list[dict[str, Any]] = []
        problem: str | None = None
        for line in lines:
            found = _row(line)
            if found is None:
                problem = "Invalid JSON in inserts stream"
                break
            rows.append(found)
        insert = partial(self._session.insert_rows, self._target, rows)
        try:
            failures = await self._call.context.run(insert) if rows else []
        except SqlRestError as error:
            failures: list[str | None] = [error.message]
        for each in failures:
            await self._acknowledge(each)
            if each is not None:
                return True
        if problem is not None:
            await self._acknowledge(problem)
        return problem is not None

    async def _acknowledge(self, problem: str | None) -> None:
        found: dict[str, Any] = {"status": "ok", "seq": self._sequence}
        if problem is not None:
            error = SqlRestError(BAD_REQUEST, problem)
            found = {**error.body(), "status": "error", "seq": self._sequence}
        if not self._is_array:
            await self._send(dumps(found) + b"\n")
        else:
            await self._send((b",\n" if self._sequence else b"") + dumps(found))
        self._sequence += 1

    async def end(self) -> None:
        """Send the end of the response."""
        await self._send(b"]\n" if self._is_array else b"", more=False)

    async def _send(self, data: bytes, *, more: bool = True) -> None:
        await self._call.send({"type": "http.response.body", "body": data, "more_body": more})


def _row(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line, None for something else."""
    try:
        found = json.loads(line, parse_float=exact_json.number)
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], found) if isinstance(found, dict) else None


async def _lines(receive: Receive) -> AsyncGenerator[list[bytes]]:
    """Yield the lines of a body in batches, as they arrive. Raises SqlRestError."""
    rest = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        more = message.get("more_body", False)
        *lines, rest = (rest + message.get("body", b"")).split(b"\n")
        if not more and rest:
            lines.append(rest)
        if len(rest) > _LINE_BYTES_MAX:
            raise SqlRestError(BAD_REQUEST, f"A row has at most {_LINE_BYTES_MAX} bytes")
        found = [each for each in lines if each.strip()]
        for start in range(0, len(found), _ROWS_MAX):
            yield found[start : start + _ROWS_MAX]
