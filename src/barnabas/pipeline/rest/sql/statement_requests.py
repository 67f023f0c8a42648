"""POST /ksql and /ksql/terminate: statements other than SELECT and PRINT.

The statements of a request are checked together before the first of them runs, so a request with
a wrong one changes nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.pipeline.rest.sql.connector_statements import Connectors, shown_text
from barnabas.pipeline.rest.sql.entity_json import entity
from barnabas.pipeline.rest.sql.query_runs import until_gone
from barnabas.pipeline.rest.sql.request_bodies import (
    ClientGoneError,
    json_object,
    read_body,
    statement_request,
)
from barnabas.pipeline.rest.sql.sql_context import failure
from barnabas.pipeline.rest.sql.sql_errors import (
    BAD_REQUEST,
    QUERY_ENDPOINT,
    SqlRestError,
)
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.scripts import StatementText, parse_statement, statement_texts
from barnabas.pipeline.sql.shell.answer_values import CommandDone, PrintedRecords, Rows
from barnabas.pipeline.sql.sql_failures import SqlError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from barnabas.pipeline.rest.sql.sql_api import SqlCall
    from barnabas.pipeline.sql.shell.answer_values import Answer
    from barnabas.pipeline.sql.shell.session_statements import SessionStatements

_TERMINATE: Final = "TERMINATE CLUSTER;"
_TERMINATED: Final = "cluster/TerminateCluster/terminate"


async def statements(call: SqlCall) -> None:
    """Check the statements of a script, then run them.

    The error of one that fails while it runs has the answers to those before it.
    """
    request = statement_request(await read_body(call.receive), "ksql", "streamsProperties")
    call.context.check_sequence(request)
    session = call.context.session(request)
    entities: list[dict[str, Any]] = []
    texts = list(_texts(request.text))
    if len(texts) > 1:
        await _check(call, session, texts)
    for source in texts:
        with _statement(source, entities):
            found = await _answered(call, session, source)
        if found is not None:
            entities.append(found)
    await call.answer(entities)


def _texts(script: str) -> Iterator[StatementText]:
    """Yield the statements of a script. Raises SqlRestError."""
    try:
        yield from statement_texts(script)
    except SqlError as error:
        raise failure(error) from None


@contextmanager
def _statement(source: StatementText, entities: list[dict[str, Any]]) -> Generator[None]:
    """Add to an error its statement, and the answers to those before it."""
    try:
        yield
    except SqlRestError as error:
        text = shown_text(source.text)
        raise SqlRestError(error.code, error.message, text, entities) from error


async def _check(call: SqlCall, session: SessionStatements, texts: Sequence[StatementText]) -> None:
    """Raise SqlRestError for the first statement that is wrong, or that the caller may not run."""
    checking, catalog = session.copied(), session.catalog
    for source in texts:
        with _statement(source, []):
            check = partial(checking.checked, source, catalog)
            statement, after = await call.context.run(check)
            _check_kind(statement)
            await call.caller.check(statement, catalog)
            catalog = after


def _check_kind(statement: st.Statement) -> None:
    if isinstance(statement, st.Select | st.PrintTopic):
        raise SqlRestError(QUERY_ENDPOINT, "SELECT and PRINT are for the endpoint /query")


async def _answered(
    call: SqlCall, session: SessionStatements, source: StatementText
) -> dict[str, Any] | None:
    """Return the entity of a statement, which has run. Raises SqlRestError."""
    try:
        statement = parse_statement(source, session.variables)
    except ValueError as error:
        raise failure(error) from None
    _check_kind(statement)
    await call.caller.check(statement, session.catalog)
    if isinstance(statement, st.ConnectorStatement):
        rights = await call.caller.rights(is_change=False)
        connectors = Connectors(call.context.connect, rights, session.catalog)
        return await connectors.answer(statement, shown_text(source.text))
    run = partial(session.run, statement, source)
    if isinstance(statement, st.Assertion):
        answer = await _until_gone(call, run)
    else:
        answer = await call.context.run(run)
    if isinstance(answer, Rows | PrintedRecords):
        answer.source.close()
        return None
    sequence = -1
    if isinstance(answer, CommandDone):
        sequence = call.context.commands.add(answer.command_id, answer.message)
    return entity(answer, f"{source.text};", sequence)


async def _until_gone(call: SqlCall, run: Callable[[], Answer]) -> Answer:
    """Run a statement that may take long, while the client keeps its connection.

    Raises SqlRestError, ClientGoneError.
    """
    found: Answer | SqlRestError | None = None

    async def running() -> None:
        nonlocal found
        try:
            found = await call.context.run(run, waits=True)
        except SqlRestError as error:
            found = error

    await until_gone(call.receive, running)
    if found is None:
        raise ClientGoneError
    if isinstance(found, SqlRestError):
        raise found
    return found


async def terminate(call: SqlCall) -> None:
    """Terminate all queries and drop all sources, with the topics of queries that are listed."""
    body = json_object(await read_body(call.receive))
    # A request may have many expressions: compiling them must not hold up the server.
    patterns = await call.context.run(partial(_patterns, body.get("deleteTopicList")))
    session = call.context.sessions()
    await call.caller.check(st.QueryControl("TERMINATE", None), session.catalog)
    made = {each.sink for each in session.catalog.queries}
    await _run(call, session, "TERMINATE ALL")
    for source in reversed(list(session.catalog.sources.values())):
        is_listed = await call.context.run(partial(_matches, patterns, source.topic))
        more = " DELETE TOPIC" if source.name in made and is_listed else ""
        await _run(call, session, f"DROP {source.kind} `{source.name}`{more}")
    message = "Queries terminated, streams and tables dropped"
    sequence = call.context.commands.add(_TERMINATED, message)
    done = entity(CommandDone(message, _TERMINATED), _TERMINATE, sequence)
    await call.answer([done])


async def _run(call: SqlCall, session: SessionStatements, text: str) -> None:
    await call.context.run(partial(session.answer, StatementText(text, 1, 1)))


def _patterns(given: object) -> list[Any]:
    """Return names of topics as regular expressions, which match in linear time.

    Raises SqlRestError.
    """
    if given is None:
        return []
    if not isinstance(given, list):
        raise SqlRestError(BAD_REQUEST, "deleteTopicList must be an array of texts")
    return [_pattern(str(each)) for each in cast(list[object], given)]


def _pattern(text: str) -> Any:
    import re2

    engine: Any = re2
    options = engine.Options()
    options.log_errors = False
    try:
        return engine.compile(text, options)
    except engine.error as error:
        reason = error.args[0].decode(errors="replace")
        raise SqlRestError(
            BAD_REQUEST, f"deleteTopicList has the wrong regular expression {text}: {reason}"
        ) from None


def _matches(patterns: Sequence[Any], topic: str) -> bool:
    return any(each.fullmatch(topic) for each in patterns)
