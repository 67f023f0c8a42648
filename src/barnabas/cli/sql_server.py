"""`barnabas sql --server`: statements that a server of ksqlDB's REST API runs."""

from __future__ import annotations

import json
import queue
import socket
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, cast

from barnabas.cli.client_options import UNREACHABLE
from barnabas.cli.command_errors import CliError
from barnabas.cli.service_requests import ServiceClient, ServiceRefusalError, service_options
from barnabas.cli.sql_answers import shown_entity
from barnabas.cli.sql_output import Line, Stream
from barnabas.pipeline.sql import exact_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import httpx

    from barnabas.cli.sql_output import Shown
    from barnabas.pipeline.sql.scripts import StatementText
    from barnabas.pipeline.sql.statement_values import Statement

_LINES = "application/vnd.ksqlapi.delimited.v1"
_PRINTED = f"{_LINES}, */*;q=0.5"
"""Lines in which an error differs from a record; a server without them sends text."""
_NOT_FOUND = 404
_JSON = "application/json"
_ROWS_MAX = 500
_PUT_S = 0.2
_TIMEOUT_S = 90.0


class SqlClient(ServiceClient):
    """Requests to one server."""

    service = "server"
    remedy = "start one with barnabas pipelines --sql, or name another with --server"
    request = "statement"
    content_type = _JSON

    def refusal(self, answer: httpx.Response) -> ServiceRefusalError:
        """Return the error that an answer describes."""
        text = answer.read().decode(errors="replace")
        try:
            found = json.loads(text)
            message, is_known = str(found["message"]), "@type" in found
        except (ValueError, KeyError, TypeError):
            message, is_known = text[:200] or answer.reason_phrase, False
        if answer.status_code == _NOT_FOUND and not is_known:
            message = f"{self.url} is not a server of SQL: {message}; {self.remedy}"
        return ServiceRefusalError(answer.status_code, message)


def server_options(
    url_help: str, *, default_url: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a server to a command, which gets its client as `server`.

    That is None without --server, unless there is a default.
    """

    def create(url: str, user: str | None, ca: str | None) -> SqlClient | None:
        return SqlClient(url, user, ca, _TIMEOUT_S) if url or default_url else None

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        return service_options(
            command,
            "server",
            create,
            option="server",
            default_url=default_url,
            url_help=url_help,
            server="server",
        )

    return add


class RemoteRows:
    """The lines of a response, which a thread reads until it ends or is closed."""

    def __init__(
        self,
        url: str,
        answer: httpx.Response,
        lines: Iterator[str],
        ending: ExitStack,
        row_of: Callable[[str], Sequence[Any]],
    ) -> None:
        """`row_of` makes a row of a line, or raises CliError for the error of a query."""
        self._url = url
        self._answer = answer
        self._lines = lines
        self._ending = ending
        self._row_of = row_of
        self._found: queue.Queue[Sequence[Any] | Exception] = queue.Queue(maxsize=_ROWS_MAX)
        self._error: CliError | None = None
        """The error behind the rows that were taken last."""
        self._has_ended = threading.Event()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def take(self, timeout_s: float) -> list[Sequence[Any]] | None:
        """Return the rows that are there, waiting for the first; None behind the last.

        Raises CliError for the error of a query, and when the connection ends too early.
        """
        if self._error is not None:
            raise self._error
        rows: list[Sequence[Any]] = []
        is_last = self._has_ended.is_set()
        while len(rows) < _ROWS_MAX:
            try:
                found = self._found.get(timeout=0 if rows or is_last else timeout_s)
            except queue.Empty:
                break
            if isinstance(found, Exception):
                self._error = self._failure(found)
                if not rows:
                    raise self._error
                break
            rows.append(found)
        return None if is_last and not rows else rows

    def close(self) -> None:
        """Close the connection, which ends the query."""
        self._is_closed.set()
        stream = self._answer.extensions.get("network_stream")
        sock = None if stream is None else stream.get_extra_info("socket")
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # which wakes the thread that reads
        self._thread.join()
        self._ending.close()

    def _read(self) -> None:
        try:
            for line in self._lines:
                if line:
                    self._put(self._row_of(line))
        except Exception as error:
            self._put(error)
        self._has_ended.set()

    def _failure(self, error: Exception) -> CliError:
        import httpx

        if isinstance(error, CliError):
            return error
        if isinstance(error, httpx.HTTPError | OSError):
            return CliError(
                f"server {self._url}: the connection ended before the query; run it again when "
                "the server is back",
                UNREACHABLE,
            )
        return CliError(f"server {self._url}: a line is not a row ({error}); see the server's log")

    def _put(self, row: Sequence[Any] | Exception) -> None:
        while not self._is_closed.is_set():
            with suppress(queue.Full):
                self._found.put(row, timeout=_PUT_S)
                return


class RemoteExecutor:
    """Statements of a session on a server; variables and properties are kept here."""

    def __init__(self, client: SqlClient) -> None:
        self._client = client
        self._properties: dict[str, str] = {}
        self._variables: dict[str, str] = {}

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables."""
        return self._variables

    def run(self, source: StatementText, statement: Statement) -> Iterable[Shown]:
        """Run one statement on the server."""
        from barnabas.pipeline.sql import statement_values as st

        # The server counts lines and columns as the script does.
        text = "\n" * (source.line - 1) + " " * (source.column - 1) + f"{source.text};"
        if isinstance(statement, st.DefineVariable):
            return [_set(self._variables, "variable", statement.name, statement.value)]
        if isinstance(statement, st.SetProperty):
            if statement.value is not None:
                self._ask(text)  # which refuses a wrong value
            return [_set(self._properties, "property", statement.name, statement.value)]
        if isinstance(statement, st.Select):
            return [self._select(text)]
        if isinstance(statement, st.PrintTopic):
            answer, ending = self._open("/query", {"ksql": text, **self._given()}, _PRINTED)
            is_text = not answer.headers.get("content-type", "").startswith(_LINES)
            row_of = _text_row if is_text else _json_row
            return [
                Stream(
                    None, RemoteRows(self._client.url, answer, answer.iter_lines(), ending, row_of)
                )
            ]
        ask = self._ask_long if isinstance(statement, st.Assertion) else self._ask
        shown = [each for answer in ask(text) for each in shown_entity(answer)]
        return shown or [Line("done")]

    def names(self) -> list[str]:
        """Return the names of streams, tables and their columns on the server."""
        found = self._ask("DESCRIBE STREAMS; DESCRIBE TABLES;")
        sources = [each for answer in found for each in answer["sourceDescriptions"]]
        columns = [field["name"] for each in sources for field in each["fields"]]
        return sorted({*(each["name"] for each in sources), *columns})

    def _given(self) -> dict[str, Any]:
        return {"streamsProperties": self._properties, "sessionVariables": self._variables}

    def _ask(self, text: str) -> list[dict[str, Any]]:
        return self._client.ask("POST", "/ksql", {"ksql": text, **self._given()})

    def _ask_long(self, text: str) -> list[dict[str, Any]]:
        """Return the answers to statements that may wait longer than a request has."""
        answer, ending = self._open("/ksql", {"ksql": text, **self._given()}, _JSON)
        with ending:
            return json.loads(answer.read())

    def _select(self, text: str) -> Stream:
        body = {
            "sql": text,
            "properties": self._properties,
            "sessionVariables": self._variables,
        }
        answer, opened = self._open("/query-stream", body, _LINES)
        with opened:
            lines = answer.iter_lines()
            columns = _columns(next(lines, ""))
            ending = opened.pop_all()
        return Stream(columns, RemoteRows(self._client.url, answer, lines, ending, _json_row))

    def _open(
        self, path: str, body: dict[str, Any], accept: str
    ) -> tuple[httpx.Response, ExitStack]:
        """Return a response whose body has not been read. Raises CliError."""
        with ExitStack() as stack:
            answer = stack.enter_context(self._client.streamed("POST", path, body, accept))
            return answer, stack.pop_all()


def _set(values: dict[str, str], kind: str, name: str, value: str | None) -> Line:
    from barnabas.pipeline.sql.shell.session_values import change

    return Line(change(values, kind, name, value))


def _columns(line: str) -> Sequence[str]:
    """Return the names of the columns in the first line. Raises CliError."""
    try:
        found = json.loads(line)
        if "message" in found:
            raise CliError(str(found["message"]))
        return found["columnNames"]
    except (ValueError, KeyError, TypeError):
        raise CliError(
            f"the server answered {line[:200]!r} where the columns of the query were expected: "
            "see the log of the server"
        ) from None


def _text_row(line: str) -> Sequence[Any]:
    return [line]


def _json_row(line: str) -> Sequence[Any]:
    found = json.loads(line, parse_float=exact_json.number)
    if isinstance(found, dict):
        raise CliError(str(cast(dict[str, Any], found).get("message", line)))
    return found
