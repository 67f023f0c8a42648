"""`barnabas sql`: statements of ksqlDB, run in this process on Spark."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from barnabas.cli.client_options import Client, client_options, pairs
from barnabas.cli.command_errors import CliError
from barnabas.cli.sql_import import import_statements
from barnabas.cli.sql_output import show
from barnabas.cli.sql_scripts import STDIN, LocalExecutor, Script, read_script, run_script
from barnabas.cli.sql_server import RemoteExecutor, SqlClient, server_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.cli.sql_scripts import Executor
    from barnabas.pipeline.sql.shell.sql_session import SqlSession

_POLL_S = 0.2


@click.group(invoke_without_command=True)
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
@server_options("Let this server run the statements, such as http://127.0.0.1:8088.")
@client_options
def sql(
    client: Client,
    server: SqlClient | None,
    *,
    files: tuple[Path, ...],
    text: str | None,
    name: str | None,
    state: Path | None,
    registry: str | None,
    as_json: bool,
    spark_pairs: tuple[str, ...],
) -> None:
    """Run SQL statements over topics; without any, at a prompt. Queries run until interrupted."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    scripts = [read_script(file) for file in files] + ([] if text is None else [Script(text)])
    if not scripts and not sys.stdin.isatty():
        raise click.UsageError("give a file with --file, or statements with --execute")
    if server is not None:
        _check_parser()
        run_scripts(RemoteExecutor(server), scripts, as_json=as_json)
        return
    client.metadata()  # an error that names the server, before Spark starts
    given = _Given(name or _name_of(files, text), state, registry or "")
    session = _session(client, given, pairs(spark_pairs, "--spark"))
    try:
        run_scripts(LocalExecutor(session), scripts, as_json=as_json, session=session)
    finally:
        session.close()


class _Given(NamedTuple):
    name: str
    state: Path | None
    registry: str


def _name_of(files: Sequence[Path], text: str | None) -> str:
    if text is not None or not files or files[0] == STDIN:
        return "sql"
    return files[0].stem


def _check_parser() -> None:
    """Raise CliError when the parser's library is missing."""
    try:
        import_module("barnabas.pipeline.sql.scripts")
    except ImportError as error:
        raise CliError(f"{error.name} is missing: pip install 'barnabas[sql]'") from None


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


def run_scripts(
    executor: Executor,
    scripts: Sequence[Script],
    *,
    as_json: bool,
    session: SqlSession | None = None,
) -> None:
    """Run scripts, or the prompt without any. Raises CliError."""
    from barnabas.pipeline.spark.session import SparkUnavailableError
    from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
    from barnabas.pipeline.streams.registry_serdes import RegistrySchemaError
    from barnabas.pipeline.streams.stream_queries import StreamFailedError

    try:
        if not scripts:
            _prompt(executor, session, as_json=as_json)
            return
        for script in scripts:
            for each in run_script(executor, script):
                if show(each, as_json=as_json) is not None:
                    return
        if session is not None:
            _wait(session)
    except (
        SqlError,
        UnresolvedError,  # of rows, whose statement has run
        StreamFailedError,
        SparkUnavailableError,
        RegistrySchemaError,
    ) as error:
        raise CliError(str(error)) from None


def _prompt(executor: Executor, session: SqlSession | None, *, as_json: bool) -> None:
    from barnabas.cli.sql_prompt import run_prompt

    if session is not None:
        click.echo("Statements run in this process: queries end with it, and nothing is stored.")
    run_prompt(executor, as_json=as_json)


def _wait(session: SqlSession) -> None:
    """Wait while queries run. Raises StreamFailedError."""
    from barnabas.pipeline.streams.stop_signals import stop_requests

    with stop_requests() as is_requested:
        while session.has_queries and not is_requested.is_set():
            session.wait(_POLL_S)


sql.add_command(import_statements)
