"""The query of a request: it starts, its rows come, and it ends with the request."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from barnabas.pipeline.rest.sql.sql_context import failure
from barnabas.pipeline.rest.sql.sql_errors import BAD_STATEMENT, SqlRestError
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.scripts import StatementText, parse_statement, statement_texts
from barnabas.pipeline.sql.shell.answer_values import PrintedRecords, Rows

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from barnabas.http.asgi import Receive
    from barnabas.pipeline.rest.sql.request_bodies import SqlRequest
    from barnabas.pipeline.rest.sql.sql_api import SqlCall
    from barnabas.pipeline.sql.shell.session_statements import SessionStatements

_WAIT_S: Final = 0.5
_GONE: Final = ("http.disconnect", "websocket.disconnect")


@asynccontextmanager
async def running_query(
    call: SqlCall, request: SqlRequest
) -> AsyncGenerator[Rows | PrintedRecords]:
    """Start the query of a request, which ends with the block. Raises SqlRestError."""
    session = call.context.session(request)
    source, statement = await _statement(call, session, request)
    is_push = isinstance(statement, st.PrintTopic) or statement.emit is not None
    with call.context.queries.reserved(is_push=is_push):
        run = partial(session.run, statement, source)
        answer = await call.context.run(run, f"{source.text};")
        if isinstance(answer, PrintedRecords):
            async with _ending(answer):
                yield answer
        elif isinstance(answer, Rows):
            with call.context.queries.running(answer):
                async with _ending(answer):
                    yield answer


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


@asynccontextmanager
async def _ending(answer: Rows | PrintedRecords) -> AsyncGenerator[None]:
    """End a query behind the block, also when the request was cancelled."""
    try:
        yield
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(answer.source.close)


async def rows_taken(call: SqlCall, answer: Rows | PrintedRecords) -> list[Sequence[Any]] | None:
    """Return the rows that have come, None behind the last. Raises SqlRestError."""
    return await call.context.run(partial(answer.source.take, _WAIT_S))


async def until_gone(receive: Receive, send: Callable[[], Awaitable[None]]) -> None:
    """Send a response, and stop when the client closes its connection."""
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            while (await receive())["type"] not in _GONE:
                pass
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await send()
        nursery.cancel_scope.cancel()
