"""The prompt of `barnabas sql`: statements over several lines, history, completion.

A statement ends with a semicolon. Ctrl-C ends the rows of a query, or clears the line, and Ctrl-D
leaves. SIGTERM leaves, too, behind the statement that runs; a second one ends the process at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.sql_output import show
from barnabas.cli.sql_scripts import Script, run_script

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from barnabas.cli.sql_scripts import Executor

_PROMPT = "sql> "
_MORE = "...> "
_LEAVING = ("exit", "quit")
_HELP = """\
A statement ends with a semicolon. SHOW STREAMS; SHOW TABLES; SHOW QUERIES; SHOW TOPICS; list what
there is, DESCRIBE NAME; shows columns, SHOW FUNCTIONS; and DESCRIBE FUNCTION NAME; the functions.

  SELECT * FROM NAME EMIT CHANGES;   rows as they come, until Ctrl-C
  PRINT TOPIC FROM BEGINNING;        records of a topic, until Ctrl-C
  RUN SCRIPT 'FILE';                 the statements of a file
  DEFINE NAME = 'VALUE';             a variable, which ${NAME} stands for
  SET 'PROPERTY' = 'VALUE';          a property of this session
  help, clear, exit                  this text; an empty screen; the end (also Ctrl-D)
"""
_WORDS = """
    ADD ALL ALTER AND ARRAY AS ASC ASSERT BEGINNING BETWEEN BIGINT BOOLEAN BY BYTES CASE CAST
    CHANGES COLUMN CONNECTOR CONNECTORS CREATE DATE DAYS DECIMAL DEFINE DELETE DESCRIBE DOUBLE DROP
    ELSE EMIT END EXISTS EXPLAIN EXTENDED FINAL FROM FULL FUNCTION FUNCTIONS GRACE GROUP HAVING
    HEADERS HOPPING HOURS ID IF IN INNER INSERT INT INTEGER INTERVAL INTO IS JOIN KEY LEFT LIKE
    LIMIT LIST MAP MINUTES NOT NULL ON OR OUTER PARTITION PAUSE PERIOD PLUGINS PRIMARY PRINT
    PROPERTIES QUERIES REPLACE RESUME RETENTION RIGHT RUN SCHEMA SCRIPT SECONDS SELECT SESSION SET
    SHOW SINK SIZE SOURCE STREAM STREAMS STRING STRUCT SUBJECT TABLE TABLES TERMINATE THEN TIME
    TIMEOUT TIMESTAMP TOPIC TOPICS TUMBLING TYPE TYPES UNDEFINE UNSET VALUES VARCHAR VARIABLES WHEN
    WHERE WINDOW WITH WITHIN
"""


def history_file() -> Path:
    """Return the file of the lines that were typed."""
    root = os.environ.get("XDG_STATE_HOME")
    directory = Path(root) if root else Path.home() / ".local" / "state"
    return directory / "barnabas" / "sql-history"


def is_complete(text: str) -> bool:
    """True for statements that all have their semicolon, and for words of the prompt."""
    from barnabas.pipeline.sql.scripts import has_ended

    return _word(text) in ("help", "clear", *_LEAVING) or has_ended(text)


def _word(text: str) -> str:
    """Return what may be a word of the prompt, which needs no semicolon and may have one."""
    return text.strip().removesuffix(";").rstrip().lower()


def run_prompt(executor: Executor, *, as_json: bool) -> None:
    """Read and run statements until the end of the input. Raises CliError without a library."""
    session = _session(executor)
    click.echo("Type help for help, exit or Ctrl-D to leave.")
    with _terminations(session.app) as is_ending:
        while not is_ending():
            try:
                text = session.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            word = _word(text)
            if word in _LEAVING:
                return
            if word == "help":
                click.echo(_HELP)
            elif word == "clear":
                click.clear()
            elif _run(executor, text, as_json=as_json) is signal.SIGTERM:
                return


@contextlib.contextmanager
def _terminations(app: Any) -> Generator[Callable[[], bool]]:
    """Leave the line at SIGTERM; yield whether it has come."""
    is_requested = False

    def leave() -> None:
        if app.future is not None and not app.future.done():
            app.exit(exception=EOFError())

    def request(number: int, frame: object) -> None:
        nonlocal is_requested
        is_requested = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if app.is_running:
            app.loop.call_soon_threadsafe(leave)  # wakes the loop, which waits for keys

    before = signal.signal(signal.SIGTERM, request)
    try:
        yield lambda: is_requested
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(executor: Executor, text: str, *, as_json: bool) -> signal.Signals | None:
    """Run statements, which an error ends; return the signal that ended them, None at their end."""
    try:
        for each in run_script(executor, Script(text)):
            if (ended := show(each, as_json=as_json)) is not None:
                return ended
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
    except Exception as error:
        lines = (str(error).strip() or type(error).__name__).splitlines()
        click.echo(f"error: {lines[0]}", err=True)
    return None


def _session(executor: Executor) -> Any:
    """Return what reads from the terminal. Raises CliError when the library is missing."""
    try:
        from prompt_toolkit import PromptSession
    except ImportError:
        raise CliError("prompt-toolkit is missing: pip install 'barnabas[sql]'") from None
    session: PromptSession[str] = PromptSession(
        _PROMPT,
        history=_history(history_file()),
        completer=_completer(executor.names),
        complete_while_typing=False,
        complete_in_thread=True,  # names are a request to a server, which may not answer
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation=_before_line,
    )
    return session


def _before_line(width: int, number: int, wraps: int) -> str:
    """Return what is before a further line, or before the rest of one that the terminal wraps."""
    return " " * width if wraps else _MORE


def _history(file: Path) -> Any:
    """Return the lines that were typed, in memory where their file cannot be written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError as error:
        click.echo(
            f"lines that you type are not kept: {file} cannot be written ({error.strerror})",
            err=True,
        )
        return InMemoryHistory()
    return FileHistory(str(file))


def _keys() -> Any:
    """Return what Enter does: it runs statements that are complete, and else begins a line."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: Any) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def _completer(names: Callable[[], Iterable[str]]) -> Any:
    """Return what completes words: SQL's, functions, streams, tables and columns."""
    from prompt_toolkit.completion import WordCompleter

    from barnabas.pipeline.sql.functions.function_table import FUNCTIONS

    def words() -> list[str]:
        try:
            known = list(names())
        except CliError:  # the server has gone; the next statement says so
            known = []
        return sorted({*_WORDS.split(), *FUNCTIONS, *known})

    return WordCompleter(words, ignore_case=True)
