"""The parts that the handlers of one server share: sessions, running queries, commands."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import trio

from barnabas.pipeline.jobs.core.activity_protocol import GroupRunner
from barnabas.pipeline.rest.connect_calls import AskConnect
from barnabas.pipeline.rest.job_rights import RestAccess
from barnabas.pipeline.rest.sql.sql_errors import (
    ASSERTION_FAILED,
    BAD_STATEMENT,
    SEQUENCE_UNKNOWN,
    SERVER_ERROR,
    TOO_MANY_QUERIES,
    SqlRestError,
)
from barnabas.pipeline.rest.sql.standby_relay import StandbyRelay
from barnabas.pipeline.sql.sql_failures import AssertionFailedError, SqlError, UnresolvedError

if TYPE_CHECKING:
    from barnabas.pipeline.rest.sql.request_bodies import SqlRequest
    from barnabas.pipeline.sql.shell.answer_values import Rows
    from barnabas.pipeline.sql.shell.session_statements import SessionStatements

logger = logging.getLogger(__name__)

PUSH_QUERIES_MAX: Final = 20
_THREADS: Final = 40
_COMMANDS_KEPT: Final = 1000
_T = TypeVar("_T")
Runners = Callable[[], Awaitable[Sequence[GroupRunner]]]


class RunningRows:
    """The push queries that run for clients now."""

    def __init__(self, maximum: int = PUSH_QUERIES_MAX) -> None:
        self._maximum = maximum
        self._reserved = 0
        self._rows: dict[str, Rows] = {}

    @contextmanager
    def reserved(self, *, is_push: bool) -> Generator[None]:
        """Count a push query. Raises SqlRestError (40003) when all are taken."""
        if is_push and self._reserved >= self._maximum:
            raise SqlRestError(
                TOO_MANY_QUERIES,
                f"There are {self._maximum} push queries already, which is the maximum: "
                "end one, or close the connection that it runs for",
            )
        self._reserved += is_push
        try:
            yield
        finally:
            self._reserved -= is_push

    @contextmanager
    def running(self, rows: Rows) -> Generator[None]:
        """Let `find` find a query within the block."""
        self._rows[rows.query_id] = rows
        try:
            yield
        finally:
            del self._rows[rows.query_id]

    def find(self, query_id: str) -> Rows | None:
        """Return a running query."""
        return self._rows.get(query_id)


class CommandLog:
    """The commands that have run on this server: their numbers and states, the newest only."""

    def __init__(self) -> None:
        self.last = -1
        """The number of the newest command, from 0."""
        self._messages: OrderedDict[str, str] = OrderedDict()

    def add(self, command_id: str, message: str) -> int:
        """Note a command that has succeeded, and return its number."""
        self._messages.pop(command_id, None)
        self._messages[command_id] = message
        if len(self._messages) > _COMMANDS_KEPT:
            self._messages.popitem(last=False)
        self.last += 1
        return self.last

    def message(self, command_id: str) -> str | None:
        """Return the message of a command."""
        return self._messages.get(command_id)

    def ids(self) -> list[str]:
        """Return the ids of commands, the oldest first."""
        return list(self._messages)


@attrs.frozen
class SqlContext:
    """One server."""

    sessions: Callable[[], SessionStatements]
    """Makes a session for one request."""
    service_id: str
    url: str
    not_ready: Callable[[], str | None] = lambda: None
    """Returns why no statement can run, or None."""
    access: RestAccess = attrs.field(factory=RestAccess)
    active_url: Callable[[], str | None] = lambda: None
    """Returns None on the active runner, and on others where it serves SQL, or an empty text."""
    relay: StandbyRelay = attrs.field(factory=StandbyRelay)
    queries: RunningRows = attrs.field(factory=RunningRows)
    commands: CommandLog = attrs.field(factory=CommandLog)
    runners: Runners | None = None
    """Returns the runners of the group. None for a server without a group."""
    connect: AskConnect | None = None
    """Answers requests to Connect. None for a server without a runner."""
    origins: tuple[str, ...] = ()
    """Origins whose pages may open a WebSocket here, beside those of this server."""
    threads: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(_THREADS))
    waiting: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(_THREADS))
    """The threads of ASSERT, which wait so long that others would have none."""

    def session(self, request: SqlRequest) -> SessionStatements:
        """Return the session of a request. Raises SqlRestError for its properties."""
        session = self.sessions()
        session.variables.update(request.variables)
        try:
            session.set_properties(request.properties)
        except UnresolvedError as error:
            raise SqlRestError(BAD_STATEMENT, str(error)) from None
        session.wait = _wait
        return session

    def check_sequence(self, request: SqlRequest) -> None:
        """Raise SqlRestError (50301) while the command that a request waits for has not run."""
        last = self.commands.last
        if request.sequence is not None and request.sequence > last:
            raise SqlRestError(
                SEQUENCE_UNKNOWN,
                f"The command {request.sequence} has not run: the newest one here is {last}",
            )

    async def run(
        self, call: Callable[[], _T], statement: str | None = None, *, waits: bool = False
    ) -> _T:
        """Call something that blocks, in a thread.

        Raises SqlRestError: 40001 for statements that are wrong, 50000 for what fails.
        """
        try:
            limiter = self.waiting if waits else self.threads
            return await trio.to_thread.run_sync(call, limiter=limiter)
        except Exception as error:
            raise failure(error, statement) from error


def _wait(seconds: float) -> None:
    """Sleep in a thread of `run`. Raises trio.Cancelled when the request has ended."""
    trio.from_thread.check_cancelled()
    time.sleep(seconds)


def failure(error: Exception, statement: str | None = None) -> SqlRestError:
    """Return the error of the API for what a statement has raised."""
    if isinstance(error, SqlRestError):
        return error
    if isinstance(error, AssertionFailedError):
        return SqlRestError(ASSERTION_FAILED, str(error), statement)
    if isinstance(error, SqlError):
        return SqlRestError(BAD_STATEMENT, str(error), statement)
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    logger.warning("a statement failed error=%s", text, exc_info=error)
    return SqlRestError(SERVER_ERROR, text, statement)
