"""`barnabas sql`: scripts, and errors of statements, of their rows and of servers."""

import io
import re
import socket
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("sqlglot")

from barnabas.cli.command_errors import CliError
from barnabas.cli.job_requests import RunnerClient
from barnabas.cli.sql_answers import shown_entity
from barnabas.cli.sql_command import run_scripts
from barnabas.cli.sql_output import Shown, Stream, show
from barnabas.cli.sql_scripts import STDIN, Script, read_script
from barnabas.cli.sql_server import RemoteExecutor, SqlClient
from barnabas.pipeline.sql.scripts import StatementText
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.statement_values import Statement
from barnabas.pipeline.streams.registry_serdes import RegistrySchemaError


class FailingRows:
    is_closed = False

    def take(self, timeout_s: float) -> list[Sequence[Any]] | None:
        raise UnresolvedError("The topic cannot be read: gone")

    def close(self) -> None:
        self.is_closed = True


class Printing:
    """An executor whose PRINT fails at its first record."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.rows = FailingRows()

    def run(self, source: StatementText, statement: Statement) -> Iterable[Shown]:
        del source, statement
        return [Stream(None, self.rows)]

    def names(self) -> list[str]:
        return []


def test_print_that_fails_is_an_error_of_the_command() -> None:
    executor = Printing()
    with pytest.raises(CliError, match="The topic cannot be read: gone"):
        run_scripts(executor, [Script("PRINT t;")], as_json=False)
    assert executor.rows.is_closed


class Refusing(Printing):
    """An executor whose statement cannot have its schema."""

    def run(self, source: StatementText, statement: Statement) -> Iterable[Shown]:
        del source, statement
        raise RegistrySchemaError("no schema of subject t-value")


def test_schema_that_is_missing_is_an_error_of_the_command() -> None:
    with pytest.raises(CliError, match=r"^no schema of subject t-value$"):
        run_scripts(Refusing(), [Script("SELECT * FROM t EMIT CHANGES;")], as_json=False)


def test_script_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "marked.sql"
    file.write_bytes(b"\xef\xbb\xbfSHOW STREAMS;\r\n")
    assert read_script(file).text == "SHOW STREAMS;\n"


def read_from_stdin(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Script:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))
    return read_script(STDIN)


def test_standard_input_is_read_as_a_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"\xef\xbb\xbfSHOW STREAMS;\r\n"
    assert read_from_stdin(data, monkeypatch) == Script("SHOW STREAMS;\n")
    with pytest.raises(CliError, match=r"the standard input is not UTF-8 at byte 0 \(0xff\)"):
        read_from_stdin("SHOW STREAMS;".encode("utf-16"), monkeypatch)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error_code": 404, "message": "HTTP 404 Not Found"}, "http://a:1 is not a server of SQL"),
        ({"@type": "generic_error", "message": "Command not found"}, "^Command not found$"),
    ],
)
def test_address_of_another_server_is_named(body: dict[str, object], message: str) -> None:
    refusal = SqlClient("http://a:1", None, None, 60.0).refusal(httpx.Response(404, json=body))
    assert re.search(message, refusal.message)


class Answering(SqlClient):
    """A client of a server that gives one answer."""

    def __init__(self, *lines: str, kind: str = "application/vnd.ksqlapi.delimited.v1") -> None:
        super().__init__("http://127.0.0.1:9", None, None, 60.0)
        content = "".join(f"{line}\n" for line in lines)
        self._answer = httpx.Response(200, text=content, headers={"content-type": kind})

    @contextmanager
    def streamed(self, method: str, path: str, body: Any, accept: str) -> Generator[httpx.Response]:
        yield self._answer


ERROR = '{"@type":"generic_error","error_code":50000,"message":"the query failed"}'


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("PRINT t;", ['["first"]', ERROR]),
        ("SELECT * FROM t EMIT CHANGES;", ['{"columnNames":["A"]}', '["first"]', ERROR]),
    ],
)
def test_error_behind_the_rows_of_a_server_is_one_of_the_command(
    text: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CliError, match=r"^the query failed$"):
        run_scripts(RemoteExecutor(Answering(*lines)), [Script(text)], as_json=False)
    assert capsys.readouterr().out.splitlines()[-1] == "first"


def test_row_is_one_line_which_a_terminal_does_not_obey(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = '["a\\u001b[31mb\\nc\\td", 1]'
    for text, lines in (("SELECT * FROM t;", ['{"columnNames":["A", "N"]}']), ("PRINT t;", [])):
        run_scripts(RemoteExecutor(Answering(*lines, row)), [Script(text)], as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "A | N",
        "a\\x1b[31mb\\nc\td | 1",
        "a\\x1b[31mb\\nc\td",
    ]


def test_extended_description_has_the_queries(capsys: pytest.CaptureFixture[str]) -> None:
    fields = ("type", "topic", "keyFormat", "valueFormat", "timestamp", "partitions")
    found = {**dict.fromkeys(fields, ""), "name": "T", "extended": True}
    reader = {"id": "CSAS_A_1", "sinks": ["A"], "state": "RUNNING", "queryString": "CREATE .."}
    columns = {"fields": [], "readQueries": [reader], "writeQueries": [{**reader, "id": "INS_2"}]}
    answer = {"@type": "source_descriptions", "sourceDescriptions": [found | columns]}
    for each in shown_entity(answer):
        show(each, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "column of T  type"
    assert [each.split()[0] for each in lines[-3:]] == ["id", "CSAS_A_1", "INS_2"]


def test_text_of_print_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    answering = Answering("Key format: STRING", '{"a": 1}', kind="text/plain")
    run_scripts(RemoteExecutor(answering), [Script("PRINT t;")], as_json=False)
    assert capsys.readouterr().out == 'Key format: STRING\n{"a": 1}\n'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "the columns of the query were expected"),
        (["[]"], "the columns of the query were expected"),
        ([ERROR], r"^the query failed$"),
    ],
)
def test_answer_without_columns_is_an_error(lines: list[str], message: str) -> None:
    with pytest.raises(CliError, match=message):
        run_scripts(RemoteExecutor(Answering(*lines)), [Script("SELECT * FROM t;")], as_json=False)


@contextmanager
def ending_server(lines: bytes | None) -> Generator[str]:
    """Yield the address of a server that ends an answer behind its first lines, or before it."""

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            if lines is not None:
                chunk = b"%x\r\n%s\r\n" % (len(lines), lines) if lines else b""
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass  # a request that is not read whole would reset the connection

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


UNCERTAIN = r"the statement may have been carried out: check before you send it again$"


@pytest.mark.parametrize(
    ("text", "lines", "message"),
    [
        (
            "DROP STREAM t;",
            None,
            rf"^server .*: the connection ended before the answer; {UNCERTAIN}",
        ),
        (
            "DROP STREAM t;",
            b"[",
            rf"^server .*: the connection ended before the answer; {UNCERTAIN}",
        ),
        (
            "SELECT * FROM t EMIT CHANGES;",
            b"",
            r"^server .*: the connection ended before the answer; send the statement again when it",
        ),
        (
            "ASSERT TOPIC t;",
            b"[",
            r"^server .*: the connection ended before the answer; send the statement again when it",
        ),
        (
            "SELECT * FROM t EMIT CHANGES;",
            b'{"columnNames":["A"]}\n',
            r"^server .*: the connection ended before the query; run it again when the server is",
        ),
        (
            "SELECT * FROM t EMIT CHANGES;",
            b'{"columnNames":["A"]}\n]\n',
            r"^server .*: a line is not a row \(.*\); see the server's log$",
        ),
    ],
)
def test_server_that_ends_within_its_answer_is_an_error(
    text: str, lines: bytes | None, message: str
) -> None:
    with ending_server(lines) as url:
        executor = RemoteExecutor(SqlClient(url, None, None, 60.0))
        with pytest.raises(CliError, match=message):
            run_scripts(executor, [Script(text)], as_json=False)


def test_request_that_changes_nothing_may_be_sent_again() -> None:
    message = (
        "^pipelines .*: the connection ended before the answer; send the request again when it"
    )
    with ending_server(None) as url, pytest.raises(CliError, match=f"{message} answers$"):
        RunnerClient(url, None, None, 60.0).ask("GET", "/connectors")


def test_answer_that_does_not_come_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        executor = RemoteExecutor(SqlClient(url, None, None, 0.2))
        with pytest.raises(CliError, match=rf"^server .*: no answer in 0\.2 s; {UNCERTAIN}"):
            run_scripts(executor, [Script("DROP STREAM t;")], as_json=False)


def test_rows_end_when_the_host_of_the_server_vanishes() -> None:
    """The connection has the probes, which a network without the host would leave unanswered."""
    with ending_server(b"") as url:
        client = SqlClient(url, None, None, 60.0)
        with client.streamed("POST", "/query-stream", {}, "*/*") as answer:
            connection = answer.extensions["network_stream"].get_extra_info("socket")
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            asked = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            found = [connection.getsockopt(socket.IPPROTO_TCP, option) for option in asked]
            assert found[0] + found[1] * found[2] == 30
