"""`barnabas mirror verify`: both sides of a mirror, compared batch by batch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.mirror_options import UNUSABLE
from barnabas.cli.mirror_requests import run_requests
from barnabas.cli.terminal_output import counted, json_option, print_json, print_table

if TYPE_CHECKING:
    from barnabas.client.client_config import ClientConfig
    from barnabas.client.mirror_comparison import Comparison

_FILE = click.Path(dir_okay=False, path_type=Path)
_COLUMNS = ("TOPIC", "PARTITION", "FROM", "TO", "BATCHES", "BEHIND", "STATE")


@click.command()
@click.option("--from", "source", metavar="HOST:PORT", required=True, help="Brokers of the source.")
@click.option("--to", "target", metavar="HOST:PORT", required=True, help="Brokers of the target.")
@click.option(
    "--topics",
    "pattern",
    metavar="PATTERN",
    required=True,
    help="A regular expression that whole names of topics match.",
)
@click.option("--source-config", type=_FILE, help="Properties of the client of the source.")
@click.option("--target-config", type=_FILE, help="Properties of the client of the target.")
@json_option
def verify(
    *,
    source: str,
    target: str,
    pattern: str,
    source_config: Path | None,
    target_config: Path | None,
    as_json: bool,
) -> int:
    """Compare mirrors with identical offsets, batch by batch.

    Offsets, numbers of records and crcs are compared where both sides have them. The exit code is 1
    when a batch differs; the first one of each partition is shown.
    """
    sides = _config(source, source_config), _config(target, target_config)
    found = _compared(*sides, _pattern(pattern))
    if as_json:
        print_json([attrs.asdict(each) for each in found])
    else:
        _show(found)
    return 1 if any(each.difference for each in found) else 0


def _show(found: list[Comparison]) -> None:
    rows = [
        (
            each.topic,
            each.partition,
            each.start,
            each.end,
            each.batches,
            each.behind,
            "differs" if each.difference else "equal",
        )
        for each in found
    ]
    print_table(_COLUMNS, rows)
    for each in found:
        if each.difference:
            click.echo(f"{each.topic}-{each.partition}, {each.difference}")
    batches = sum(each.batches for each in found)
    equal = "1 batch" if batches == 1 else f"{batches:,} batches"
    click.echo(f"{equal} equal in {counted(len(found), 'partition')}")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise CliError(
            f"--topics {text!r} is not a regular expression: {error}", UNUSABLE
        ) from None


def _config(bootstrap: str, file: Path | None) -> ClientConfig:
    from barnabas.client.client_config import ClientConfig
    from barnabas.config import ConfigError

    try:
        return ClientConfig.load(file, {"bootstrap.servers": bootstrap})
    except ConfigError as error:
        raise CliError(error.message, UNUSABLE) from None


def _compared(
    source_config: ClientConfig, target_config: ClientConfig, pattern: re.Pattern[str]
) -> list[Comparison]:
    from barnabas.client import open_client
    from barnabas.client.mirror_comparison import compare, partitions

    async def ask() -> list[Comparison]:
        async with open_client(source_config) as source, open_client(target_config) as target:
            chosen = await partitions(source, target, pattern.fullmatch)
            return [await compare(source, target, *each) for each in chosen]

    found = run_requests(ask)
    if not found:
        raise CliError(f"no topic of both clusters matches {pattern.pattern!r}")
    return found
