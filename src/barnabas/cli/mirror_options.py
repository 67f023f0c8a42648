"""The options that describe a flow: both clusters, topics, offsets, properties."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from barnabas.cli.client_options import pairs
from barnabas.cli.command_errors import CliError
from barnabas.config import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

MIRROR_CLASS = "barnabas.MirrorConnector"
UNUSABLE = 2
"""The exit code for options and files of properties that cannot work."""
FILE = click.Path(dir_okay=False, path_type=Path)

flow_argument = click.argument("flow", metavar="FLOW")

_OPTIONS = (
    click.option(
        "--from",
        "source",
        metavar="HOST:PORT",
        required=True,
        help="Brokers of the cluster to copy from.",
    ),
    click.option(
        "--to",
        "target",
        metavar="HOST:PORT",
        required=True,
        help="Brokers of the cluster to copy to.",
    ),
    click.option(
        "--topics",
        "pattern",
        metavar="PATTERN",
        required=True,
        help="A regular expression that whole names of topics match.",
    ),
    click.option(
        "--offsets",
        type=click.Choice(["identical", "assigned"]),
        default="identical",
        show_default=True,
        help="identical keeps the offsets, with barnabas as the target; assigned leaves them to "
        "the target, which may be any Kafka.",
    ),
    click.option(
        "--source-config",
        type=FILE,
        help="Properties of the clients of the source, such as security.protocol.",
    ),
    click.option(
        "--target-config",
        type=FILE,
        help="Properties of the clients of the target.",
    ),
    click.option(
        "--set",
        "set_pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="A property of the flow, such as on.trim=skip; repeatable.",
    ),
)


@attrs.frozen
class GivenFlow:
    """The options of a flow as they were given."""

    source: str
    target: str
    pattern: str
    offsets: str
    source_config: Path | None
    target_config: Path | None
    set_pairs: tuple[str, ...]

    def config(self, flow: str) -> dict[str, str]:
        """Return the configuration of the flow's connector. Raises CliError, UsageError."""
        return {
            "name": flow,
            "connector.class": MIRROR_CLASS,
            "topics.regex": self.pattern,
            "offsets": self.offsets,
            **prefixed("source.", self.source_config),
            **prefixed("target.", self.target_config),
            "source.bootstrap.servers": self.source,
            "target.bootstrap.servers": self.target,
            **pairs(self.set_pairs, "--set"),
        }


def flow_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command; it gets them as `given`."""

    def run(**options: object) -> int:
        names = [field.name for field in attrs.fields(GivenFlow)]
        given = GivenFlow(**{name: options.pop(name) for name in names})  # pyright: ignore[reportArgumentType]
        return command(given=given, **options)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__dict__.update(command.__dict__)
    found: Callable[..., int] = run
    for option in reversed(_OPTIONS):
        found = option(found)
    return found


def prefixed(prefix: str, file: Path | None) -> dict[str, str]:
    """Return the properties of a file with a prefix; none without a file. Raises CliError."""
    if file is None:
        return {}
    from barnabas.config import properties_file

    try:
        return {prefix + name: value for name, value in properties_file.read(file).items()}
    except ConfigError as error:
        raise CliError(error.message, UNUSABLE) from None
