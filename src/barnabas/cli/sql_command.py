"""`barnabas sql`: statements of ksqlDB, run in this process on Spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from barnabas.cli.client_options import Client, client_options, pairs
from barnabas.cli.command_errors import CliError
from barnabas.cli.terminal_output import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.sql.shell.answer_values import Answer, Rows
    from barnabas.pipeline.sql.shell.sql_session import SqlSession

_POLL_S = 0.2
_STDIN = Path("-")


@click.command()
@click.option(
    "--file",
    "-f",
    "files",
    multiple=True,
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Run the statements of a file; - is the standard input. Repeatable.",
)
@click.option(
    "--execute", "-e", "text", metavar="STATEMENTS", help="Run these statements, after the files."
)
@click.option(
    "--name",
    metavar="NAME",
    help="The prefix of the queries' groups. [default: the first file's name; sql with -e]",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep checkpoints here. [default: ~/.local/state/barnabas/streams/NAME]",
)
@click.option("--registry", metavar="URL", help="The schema registry of AVRO, PROTOBUF, JSON_SR.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON, one a line.")
@click.option(
    "--spark",
    "spark_pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of Spark; repeatable.",
)
@client_options
def sql(
    client: Client,
    *,
    files: tuple[Path, ...],
    text: str | None,
    name: str | None,
    state: Path | None,
    registry: str | None,
    as_json: bool,
    spark_pairs: tuple[str, ...],
) -> None:
    """Run SQL statements over topics; queries run until interrupted."""
    if not files and text is None:
        raise click.UsageError("give a file with --file, or statements with --execute")
    scripts = [_read(file) for file in files] + ([] if text is None else [text])
    client.metadata()  # an error that names the server, before Spark starts
    given = _Given(name or _name_of(files, text), state, registry or "")
    session = _session(client, given, pairs(spark_pairs, "--spark"))
    try:
        _run(session, scripts, as_json=as_json)
    finally:
        session.close()


class _Given(NamedTuple):
    name: str
    state: Path | None
    registry: str


def _read(file: Path) -> str:
    """Return the text of a file, or of the standard input. Raises CliError."""
    if file == _STDIN:
        return sys.stdin.read()
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CliError(f"{file} is not UTF-8 at byte {error.start}") from None


def _name_of(files: Sequence[Path], text: str | None) -> str:
    if text is not None or not files or files[0] == _STDIN:
        return "sql"
    return files[0].stem


def _session(client: Client, given: _Given, spark: dict[str, str]) -> SqlSession:
    from barnabas.pipeline.sql.shell.session_values import SessionSettings

    try:
        from barnabas.pipeline.sql.shell.sql_session import SqlSession
    except ImportError as error:
        raise CliError(f"{error.name} is missing: pip install 'barnabas[spark,sql]'") from None
    settings = SessionSettings(
        client.bootstrap,
        client.properties,
        given.name,
        given.state,
        spark=spark,
        registry=given.registry,
    )
    try:
        return SqlSession(settings)
    except ValueError as error:
        raise CliError(f"{error}; see --name") from None


def _run(session: SqlSession, scripts: Sequence[str], *, as_json: bool) -> None:
    from barnabas.pipeline.spark.session import SparkUnavailableError
    from barnabas.pipeline.sql.sql_failures import SqlError
    from barnabas.pipeline.streams.state_directory import StateInUseError
    from barnabas.pipeline.streams.stop_signals import stop_requests
    from barnabas.pipeline.streams.stream_queries import StreamFailedError

    try:
        for script in scripts:
            for answer in session.execute(script):
                _print(answer, as_json=as_json)
        with stop_requests() as is_requested:
            while session.has_queries and not is_requested.is_set():
                session.wait(_POLL_S)
    except (SqlError, StreamFailedError, SparkUnavailableError, StateInUseError) as error:
        raise CliError(str(error)) from None


def _print(answer: Answer, *, as_json: bool) -> None:
    from barnabas.pipeline.sql.shell import answer_values as av
    from barnabas.pipeline.sql.shell.answer_tables import listings

    if isinstance(answer, av.Message):
        click.echo(answer.text, err=as_json)
    elif isinstance(answer, av.CommandDone):
        click.echo(answer.message, err=as_json)
    elif isinstance(answer, av.PrintedRecords):
        for line in answer:
            click.echo(line)
    elif isinstance(answer, av.Rows):
        _print_rows(answer, as_json=as_json)
    else:
        for table in listings(answer):
            print_table(table.columns, table.rows)


def _print_rows(answer: Rows, *, as_json: bool) -> None:
    if not as_json:
        click.echo(" | ".join(answer.names))
    for row in answer:
        if as_json:
            click.echo(json.dumps(dict(zip(answer.names, row, strict=True))))
        else:
            click.echo(" | ".join(_text(each) for each in row))
        sys.stdout.flush()


def _text(value: Any) -> str:
    if value is None:
        return "null"
    return value if isinstance(value, str) else json.dumps(value)
