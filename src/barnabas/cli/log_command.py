"""`barnabas log`: check the files of a stopped node."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.terminal_output import counted, json_option, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.log.scrubbing import Checked

# Logs that the next start removes, and unfinished copies.
_NO_LOGS = ("-delete", "-future")


@click.group()
def log() -> None:
    """Work with the data directories of a stopped node."""


@log.command()
@click.argument(
    "directories",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
)
@json_option
def verify(*, directories: tuple[Path, ...], as_json: bool) -> int:
    """Read every segment in DIRECTORIES and check its batches' crcs. Nothing is changed.

    Each is one of log.dirs, or the directory of one partition. The exit code is 1 when a segment is
    damaged. After a kill the last segment of a log may end inside a batch; the next start truncates
    it there.
    """
    found = list(_checked(directories))
    bad = [each for each in found if each.fault is not None]
    size = sum(each.size for each in found)
    if as_json:
        faults = [{"segment": each.path, "fault": each.fault} for each in bad]
        print_json({"segments": len(found), "bytes": size, "damaged": faults})
    else:
        if bad:
            print_table(("SEGMENT", "FAULT"), [(each.path, each.fault) for each in bad])
        click.echo(f"{counted(len(found), 'segment')}, {counted(size, 'byte')}, {len(bad)} damaged")
    return 1 if bad else 0


def _checked(directories: tuple[Path, ...]) -> Iterator[Checked]:
    from barnabas.log import DataDirectoryError, FileCache, Volume
    from barnabas.log.scrubbing import check_log

    for directory in directories:
        if not directory.is_dir():
            raise CliError(
                f"{directory} is not a directory; give a directory of log.dirs or of a partition"
            )
        if any(directory.glob("*.log")):
            yield from check_log(str(directory), _at_any_speed, with_active=True)
            continue
        volume = Volume(directory, FileCache(1))
        try:
            volume.lock()
        except DataDirectoryError as error:
            raise CliError(str(error)) from error
        try:
            for entry in sorted(os.scandir(directory), key=lambda each: each.name):
                if entry.is_dir() and not entry.name.endswith(_NO_LOGS):
                    yield from check_log(entry.path, _at_any_speed, with_active=True)
        finally:
            volume.unlock()


def _at_any_speed(_: int) -> None:
    return
