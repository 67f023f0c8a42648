"""Options of the commands that work on a node's own files and configuration."""

from pathlib import Path
from typing import Final

import click

from barnabas.config import ConfigError

data_option: Final = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the data (log.dirs). [default: ./data]",
)
set_option: Final = click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Set one property; repeatable."
)


def properties_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the properties of `--set`. Raises ConfigError."""
    properties: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"Invalid value {pair} for --set: it must be NAME=VALUE")
        properties[name.strip()] = value
    return properties


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of `--listen`. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if not (colon and port.isdecimal()):
        raise ConfigError(
            f"Invalid value {text} for --listen: it must be HOST:PORT, for example 127.0.0.1:9092"
        )
    if int(port) > 65535:
        raise ConfigError(f"Invalid value {text} for --listen: the port must be from 0 to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)
