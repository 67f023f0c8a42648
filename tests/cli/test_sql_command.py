"""`barnabas sql`: errors of rows that come after their statement has run."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

pytest.importorskip("sqlglot")

from barnabas.cli.command_errors import CliError
from barnabas.cli.sql_command import run_scripts
from barnabas.cli.sql_output import Shown, Stream
from barnabas.pipeline.sql.scripts import StatementText
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.statement_values import Statement


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
        run_scripts(executor, ["PRINT t;"], as_json=False)
    assert executor.rows.is_closed
