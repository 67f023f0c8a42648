"""`barnabas sql import`: the statements of a ksqlDB server, created on a server of barnabas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import Client, client_options
from barnabas.cli.command_errors import CliError
from barnabas.cli.service_requests import ServiceRefusalError
from barnabas.cli.sql_answers import shown_entity
from barnabas.cli.sql_output import show
from barnabas.cli.sql_server import SqlClient, server_options
from barnabas.cli.terminal_output import counted, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.pipeline.sql.imports.import_plan import ImportStep
    from barnabas.pipeline.sql.imports.ksqldb_commands import KsqlCommand

_SHOWN_MAX = 100
_NAMES = "SHOW STREAMS; SHOW TABLES; SHOW TYPES; SHOW QUERIES;"


@click.command("import")
@click.option(
    "--service-id",
    default="default_",
    show_default=True,
    metavar="ID",
    help="The ksql.service.id of the ksqlDB server, which is in the name of its topic.",
)
@click.option(
    "--start",
    type=click.Choice(["earliest", "latest"]),
    help="Where all queries begin to read. [default: as each did in ksqlDB]",
)
@click.option("--yes", "-y", is_flag=True, help="Create what the plan lists.")
@server_options("The server that gets the statements.", default_url="http://127.0.0.1:8088")
@client_options
def import_statements(
    client: Client, server: SqlClient, *, service_id: str, start: str | None, yes: bool
) -> None:
    """Show which statements of a ksqlDB server run here, and with --yes create them.

    They are read from its command topic at --bootstrap.
    """
    try:
        from barnabas.pipeline.sql.imports.import_plan import planned
        from barnabas.pipeline.sql.imports.ksqldb_commands import topic_of
        from barnabas.pipeline.sql.imports.live_commands import live
    except ImportError as error:
        raise CliError(f"{error.name} is missing: pip install 'barnabas[sql]'") from None
    commands = _commands(client, topic_of(service_id))
    steps = planned(live(commands), _known(server), start)
    _show(steps)
    wanted = [each for each in steps if each.problem is None and not each.is_there]
    refused = sum(each.problem is not None for each in steps)
    if not yes:
        said = counted(len(wanted), "statement")
        click.echo(f"{said} can be created at {server.url}, {refused:,} cannot; --yes creates them")
        return
    failed = sum([not _is_created(server, each) for each in wanted])
    if refused + failed:
        raise CliError(f"{counted(refused + failed, 'statement')} of {len(steps):,} did not run")


def _commands(client: Client, topic: str) -> list[KsqlCommand]:
    """Return the commands of a topic. Raises CliError."""
    from confluent_kafka import KafkaException

    from barnabas.pipeline.delivery.slices.source_offsets import records_of
    from barnabas.pipeline.sql.imports.ksqldb_commands import UnreadableCommandError, decode

    client.partitions(topic)
    try:
        records = records_of(topic, client.settings(group_id="barnabas-cli"))
    except KafkaException as error:
        raise client.failure(error.args[0], f"topic {topic}") from None
    except TimeoutError as error:
        raise CliError(str(error)) from None
    found: list[KsqlCommand] = []
    for key, value in records:
        try:
            if value is not None:
                found.append(decode(key, value))
        except UnreadableCommandError as error:
            shown = key.decode(errors="replace")
            raise CliError(
                f"the record {shown} of topic {topic} is not a command: {error}"
            ) from None
    return found


def _known(server: SqlClient) -> set[str]:
    """Return the names of all objects of a server. Raises CliError."""
    found: set[str] = set()
    for each in server.ask("POST", "/ksql", {"ksql": _NAMES}):
        found |= {one["name"] for one in (*each.get("streams", ()), *each.get("tables", ()))}
        found |= set(each.get("types", ())) | {one["id"] for one in each.get("queries", ())}
    return found


def _show(steps: Iterable[ImportStep]) -> None:
    rows = [(_outcome(each), each.query or "", _shortened(each.text)) for each in steps]
    print_table(("OUTCOME", "QUERY", "STATEMENT"), rows)
    for each in steps:
        if each.problem is not None:
            click.echo(f"cannot run: {_shortened(each.text)}\n  {each.problem}")


def _outcome(step: ImportStep) -> str:
    if step.problem is not None:
        return "cannot run"
    return "is there" if step.is_there else "create"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_MAX else f"{line[: _SHOWN_MAX - 2]}.."


def _is_created(server: SqlClient, step: ImportStep) -> bool:
    """Run a statement, and print what was done, or why it was refused. Raises CliError."""
    properties = {"auto.offset.reset": step.start}
    if step.query is not None:
        properties["barnabas.sql.query.name"] = step.query
    body = {"ksql": f"{step.text};", "streamsProperties": properties}
    try:
        answers = server.ask("POST", "/ksql", body)
    except ServiceRefusalError as error:
        click.echo(f"not created: {_shortened(step.text)}\n  {error}")
        return False
    for answer in answers:
        for each in shown_entity(answer):
            show(each, as_json=False)
    return True
