"""`barnabas sql`: scripts, and errors of statements, of their rows and of servers."""

import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("sqlglot")

from barnabas.cli.command_errors import CliError
from barnabas.cli.sql_command import run_scripts
from barnabas.cli.sql_output import Shown, Stream
from barnabas.cli.sql_scripts import Script, read_script
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
