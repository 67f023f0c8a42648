"""Scripts of `barnabas sql`: each statement is run by this process or by a server.

RUN SCRIPT is for the shell alone: a server reads no file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.cli.command_errors import CliError
from barnabas.cli.sql_output import Line, Stream, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.cli.sql_output import Shown
    from barnabas.pipeline.sql.scripts import StatementText
    from barnabas.pipeline.sql.shell.session_statements import SessionStatements
    from barnabas.pipeline.sql.statement_values import Statement

STDIN = Path("-")
_DEPTH_MAX = 16


class Executor(Protocol):
    """Runs statements."""

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables, by their names in upper case."""
        ...

    def run(self, source: StatementText, statement: Statement) -> Iterable[Shown]:
        """Run one statement. Raises SqlError, CliError, and what Spark and Kafka raise."""
        ...

    def names(self) -> list[str]:
        """Return the names of streams, tables and their columns, for completion."""
        ...


class LocalExecutor:
    """Statements of a session in this process."""

    def __init__(self, session: SessionStatements) -> None:
        self._session = session

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables of the session."""
        return self._session.variables

    def run(self, source: StatementText, statement: Statement) -> Iterable[Shown]:
        """Run one statement in the session."""
        from barnabas.pipeline.sql.shell import answer_values as av
        from barnabas.pipeline.sql.shell.answer_tables import listings

        answer = self._session.run(statement, source)
        if isinstance(answer, av.Message | av.AssertedTopic | av.AssertedSchema):
            return [Line(answer.text)]
        if isinstance(answer, av.CommandDone):
            return [Line(answer.message), *map(Line, answer.warnings)]
        if isinstance(answer, av.Skipped):
            return [Line(f"warning: {answer.warning}")]
        if isinstance(answer, av.Rows):
            return [Stream(answer.names, answer.source)]
        if isinstance(answer, av.PrintedRecords):
            return [Stream(None, answer.source)]
        return [Table(each.columns, each.rows) for each in listings(answer)]

    def names(self) -> list[str]:
        """Return the names of the catalog, and those of columns."""
        sources = self._session.catalog.sources
        columns = [name for each in sources.values() for name in each.column_names]
        return sorted({*sources, *columns})


class Script(NamedTuple):
    """Statements, and the file that they are from."""

    text: str
    file: Path | None = None


class ScriptError(CliError):
    """A failure of a statement in a file, which the message names."""


def run_script(executor: Executor, script: Script, depth: int = 0) -> Iterator[Shown]:
    """Run the statements of a script. Raises SqlError, and CliError as for what is in files."""
    from barnabas.pipeline.sql.sql_failures import SqlError

    try:
        yield from _run(executor, script.text, depth)
    except ScriptError:
        raise
    except SqlError as error:
        if script.file is None:
            raise
        raise ScriptError(f"{script.file}: {error}") from None
    except CliError as error:
        if script.file is None:
            raise
        raise ScriptError(f"{script.file}: {error.message}", error.exit_code) from None


def _run(executor: Executor, text: str, depth: int) -> Iterator[Shown]:
    from barnabas.pipeline.sql.scripts import parse_statement, statement_texts
    from barnabas.pipeline.sql.statement_values import RunScript

    for source in statement_texts(text):
        statement = parse_statement(source, executor.variables)
        if not isinstance(statement, RunScript):
            yield from executor.run(source, statement)
        elif depth == _DEPTH_MAX:
            raise CliError(f"{statement.path}: scripts run other scripts more than {depth} deep")
        else:
            yield from run_script(executor, read_script(Path(statement.path)), depth + 1)


def read_script(file: Path) -> Script:
    """Return the statements of a file, or of the standard input. Raises CliError."""
    name = "the standard input" if file == STDIN else str(file)
    try:
        data = sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise CliError(f"cannot read {name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CliError(
            f"{name} is not UTF-8 at byte {error.start} ({error.object[error.start]:#04x}); "
            "save it as UTF-8"
        ) from None
    return Script(text, None if file == STDIN else file)
