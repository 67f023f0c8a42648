"""Options of the commands that work on a node's own files and configuration."""

from pathlib import Path
from typing import Final

import click

data_option: Final = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the data (log.dirs). [default: ./data]",
)
set_option: Final = click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Set one property; repeatable."
)
