"""The prompt of `barnabas sql` in a pseudo terminal, with a server of ksqlDB's REST API."""

import contextlib
import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from barnabas.cli.sql_prompt import is_complete
from barnabas.testing import Node
from tests.pipeline.rest.sql.live_sql import live_sql

_WAIT_S = 60.0
_PROGRAM = [sys.executable, "-m", "barnabas", "sql"]
_CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]|\r")


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


@pytest.fixture(scope="module")
def api(node: Node) -> Iterator[httpx.Client]:
    with live_sql(node.bootstrap) as found:
        yield found


class Terminal:
    """A program in a pseudo terminal."""

    def __init__(self, command: list[str], environment: dict[str, str], columns: int) -> None:
        self._here, there = pty.openpty()
        termios.tcsetwinsize(there, (50, columns))
        self._seen = b""
        self.process = subprocess.Popen(
            command,
            stdin=there,
            stdout=there,
            stderr=there,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C is a signal then
        )
        os.close(there)

    def write(self, text: str) -> None:
        os.write(self._here, text.encode())

    def wait_for(self, text: str) -> str:
        """Read until the program has written a text after those that were waited for before.

        Return what it wrote before the text.
        """
        until = time.monotonic() + _WAIT_S
        while text.encode() not in (shown := _CONTROL.sub(b"", self._seen)):
            assert time.monotonic() < until, f"no {text!r} in {shown!r}"
            if select.select([self._here], [], [], 1.0)[0]:
                self._seen += os.read(self._here, 65536)
        before, _, self._seen = shown.partition(text.encode())
        return before.decode(errors="replace")

    def end(self) -> int:
        """Wait for the end of the program, reading what it writes."""
        until = time.monotonic() + _WAIT_S
        while self.process.poll() is None:
            assert time.monotonic() < until
            if select.select([self._here], [], [], 0.1)[0]:
                try:
                    os.read(self._here, 65536)
                except OSError:  # the program has closed its side
                    break
        return self.process.wait(_WAIT_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._here)


@contextlib.contextmanager
def prompt(api: httpx.Client, state: Path, *before: str, columns: int = 200) -> Generator[Terminal]:
    """Open a prompt of the server that keeps its history below a directory."""
    # Without an answer to a request for the cursor's position, the prompt would wait for it.
    terminal = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    environment = {**os.environ, "XDG_STATE_HOME": str(state), **terminal}
    command = [*_PROGRAM, "--server", str(api.base_url)]
    found = Terminal(command, environment, columns)
    try:
        for each in (*before, "sql>"):
            found.wait_for(each)
        yield found
    finally:
        found.close()


@pytest.fixture
def terminal(api: httpx.Client, tmp_path: Path) -> Iterator[Terminal]:
    with prompt(api, tmp_path) as found:
        yield found


def test_statement_over_two_lines_runs_and_is_in_the_history(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.write("CREATE TYPE prompt_type\r")
    terminal.wait_for("...>")
    terminal.write("AS INT;\r")
    terminal.wait_for("created type PROMPT_TYPE")
    terminal.wait_for("sql>")
    terminal.write("DROP TYP prompt_type;\r")
    terminal.wait_for("error: line 1:6: ")
    terminal.wait_for("sql>")
    terminal.write("help;\r")
    terminal.wait_for("RUN SCRIPT 'FILE';")
    terminal.wait_for("sql>")
    terminal.write("exit;\r")
    assert terminal.end() == 0
    history = (tmp_path / "barnabas" / "sql-history").read_text()
    assert "+CREATE TYPE prompt_type\n+AS INT;" in history
    assert (tmp_path / "barnabas" / "sql-history").stat().st_mode & 0o077 == 0


def test_history_is_kept_for_the_next_prompt(api: httpx.Client, tmp_path: Path) -> None:
    with prompt(api, tmp_path) as first:
        first.write("help;\r")
        first.wait_for("RUN SCRIPT 'FILE';")
        first.wait_for("sql>")
        first.write("\x04")
        assert first.end() == 0
    with prompt(api, tmp_path) as second:
        second.write("\x1b[A\r")
        second.wait_for("RUN SCRIPT 'FILE';")


def test_line_that_the_terminal_wraps_is_one_line(api: httpx.Client, tmp_path: Path) -> None:
    with prompt(api, tmp_path, columns=40) as terminal:
        terminal.write(f"SELECT '{'a' * 60}zz")
        assert "...>" not in terminal.wait_for("zz")
        terminal.write("\r")
        terminal.wait_for("...>")


def test_words_and_names_are_completed(terminal: Terminal, api: httpx.Client) -> None:
    text = "CREATE STREAM completed_name (a INT, completed_column INT)"
    properties = "kafka_topic='cn', value_format='JSON', partitions=1"
    assert api.post("/ksql", json={"ksql": f"{text} WITH ({properties});"}).status_code == 200
    terminal.write("DESCRI\t")
    terminal.wait_for("BE")  # only what changes is written
    terminal.write(" completed_n\t")
    terminal.wait_for("COMPLETED_NAME")
    terminal.write(";\r")
    terminal.wait_for("INTEGER")
    terminal.wait_for("sql>")
    terminal.write("SELECT completed_c\t")
    terminal.wait_for("COMPLETED_COLUMN")


def test_interrupt_ends_rows_and_not_the_prompt(
    terminal: Terminal, node: Node, api: httpx.Client
) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("printed", "first-row")
    assert producer.flush(30) == 0
    terminal.write("PRINT printed FROM BEGINNING;\r")
    terminal.wait_for("value: first-row")
    producer.produce("printed", "second-row")
    assert producer.flush(30) == 0
    terminal.wait_for("value: second-row")
    terminal.write("\x03")
    terminal.wait_for("sql>")
    terminal.write("\x04")
    assert terminal.end() == 0


def test_interrupt_clears_a_statement_that_is_typed(terminal: Terminal) -> None:
    terminal.write("SELECT half\r")
    terminal.wait_for("...>")
    terminal.write("\x03")
    terminal.wait_for("sql>")
    terminal.write("help;\r")
    terminal.wait_for("RUN SCRIPT 'FILE';")


def test_sigterm_leaves_the_prompt(terminal: Terminal) -> None:
    terminal.process.terminate()
    assert terminal.end() == 0


def test_sigterm_ends_rows_and_the_prompt(terminal: Terminal, node: Node) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("ended", "first-row")
    assert producer.flush(30) == 0
    terminal.write("PRINT ended FROM BEGINNING;\r")
    terminal.wait_for("value: first-row")
    terminal.process.terminate()
    assert terminal.end() == 0


def test_prompt_continues_behind_the_end_of_its_server(node: Node, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("interrupted", "first-row")
    assert producer.flush(30) == 0
    with contextlib.ExitStack() as stack:
        with live_sql(node.bootstrap) as api:
            address, port = str(api.base_url), api.base_url.port
            terminal = stack.enter_context(prompt(api, tmp_path))
            terminal.write("PRINT interrupted FROM BEGINNING;\r")
            terminal.wait_for("value: first-row")
        terminal.wait_for(f"error: server {address}: the connection ended before the query")
        terminal.wait_for("sql>")
        terminal.write("SHOW TYPES;\r")
        terminal.wait_for(f"error: server {address}: Connection refused; start one with")
        terminal.wait_for("sql>")
        assert port is not None
        with live_sql(node.bootstrap, port=port):
            terminal.write("CREATE TYPE behind_the_end AS INT;\r")
            terminal.wait_for("created type BEHIND_THE_END")
            terminal.wait_for("sql>")
            terminal.write("\x04")
            assert terminal.end() == 0


def test_prompt_without_a_file_for_its_history_runs(api: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "barnabas").touch()  # a file where the directory would be
    with prompt(api, tmp_path, "not kept", "cannot be written") as terminal:
        terminal.write("SHOW TYPES;\r")
        terminal.wait_for("name")  # the table; "sql>" alone may be that of the line that was typed
        terminal.wait_for("sql>")
        terminal.write("\x04")
        assert terminal.end() == 0


def test_script_with_variables_runs(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "s.sql").write_text("CREATE TYPE ${name} AS INT; SHOW VARIABLES;")
    terminal.write(f"DEFINE name = 'scripted'; RUN SCRIPT '{tmp_path / 's.sql'}';\r")
    terminal.wait_for("created type SCRIPTED")
    terminal.wait_for("scripted")
    terminal.wait_for("sql>")
    terminal.write("UNDEFINE name; UNDEFINE name; SET 'auto.offset.reset' = 'newest';\r")
    terminal.wait_for("removed the variable NAME")
    terminal.wait_for("the variable NAME was not set")
    terminal.wait_for("error: line 1:31: auto.offset.reset is earliest or latest, and not 'newest'")
    terminal.wait_for("sql>")
    terminal.write("RUN SCRIPT 'none.sql';\r")
    terminal.wait_for("error: cannot read none.sql")
    (tmp_path / "wrong.sql").write_text("-- wrong\n\n  DROP STREAM nothing;\n")
    (tmp_path / "outer.sql").write_text(f"RUN SCRIPT '{tmp_path / 'wrong.sql'}';")
    terminal.write(f"RUN SCRIPT '{tmp_path / 'outer.sql'}';\r")
    terminal.wait_for(f"error: {tmp_path / 'wrong.sql'}: line 3:15: There is no")


def test_server_that_is_absent_is_named_with_the_remedy() -> None:
    command = [*_PROGRAM, "--server", "http://127.0.0.1:9", "-e", "SHOW STREAMS;"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=False)
    assert found.returncode == 3
    assert "server http://127.0.0.1:9: " in found.stderr
    assert "start one with barnabas pipelines --sql, or name another" in found.stderr


def test_statements_run_on_the_server_from_a_pipe(api: httpx.Client) -> None:
    text = "CREATE TYPE piped AS STRUCT<a ARRAY<DECIMAL(4, 2)>>; SHOW TYPES; SHOW PROPERTIES;"
    command = [*_PROGRAM, "--server", str(api.base_url), "-e", text]
    found = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=True)
    assert "created type PIPED" in found.stdout
    assert "STRUCT<`A` ARRAY<DECIMAL(4, 2)>>" in found.stdout
    assert "auto.offset.reset" in found.stdout


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SHOW TYPES;\nSHOW TYPES; DROP STREAM nothing;", "line 2:25: "),
        ("SHOW TYPES;\n\nSELECT a\nFROM nothing EMIT CHANGES;", "line 4:6: "),
    ],
)
def test_error_of_the_server_has_its_place_in_the_file(
    text: str, place: str, api: httpx.Client, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.sql"
    file.write_text(text)
    command = [*_PROGRAM, "--server", str(api.base_url), "-f", str(file)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=False)
    assert f"barnabas: {file}: {place}" in found.stderr
    assert found.returncode == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("help", True),
        ("SHOW STREAMS", False),
        ("SHOW STREAMS;", True),
        ("SHOW STREAMS; SHOW", False),
        ("PRINT 'a;", False),
        ("SELECT ';' FROM a", False),
        ("SELECT ';' FROM a; -- it ends", True),
        ("-- it begins", True),
        ("/* it begins;", False),
        ("SHOW STREAMS /* a;", False),
        ("exit", True),
        ("exit ;", True),
    ],
)
def test_statements_end_with_a_semicolon(text: str, expected: bool) -> None:
    assert is_complete(text) is expected
