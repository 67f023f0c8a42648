"""The output of all commands: tables, JSON, progress.

On a terminal, tables are coloured and fit its width; in a pipe they are plain text in padded
columns, never truncated. Progress goes to stderr, and only to a terminal.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from barnabas.control_characters import escape_control_characters

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the right form: "1 record", "2,000 records"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def print_json(data: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def print_line(text: str) -> None:
    """Print one line; control characters of names are escaped, as the terminal would obey them."""
    click.echo(escape_control_characters(text))


def cell_text(cell: object) -> str:
    """Return the text of a table's cell, on one line; None is shown as a dash."""
    return "-" if cell is None else escape_control_characters(str(cell))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their columns; None is shown as a dash."""
    cells = [list(map(cell_text, row)) for row in rows]
    if sys.stdout.isatty():
        _print_rich(columns, cells, rows)
        return
    lines = [columns, *cells]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (
            cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _print_rich(
    columns: Sequence[str], cells: Sequence[Sequence[str]], rows: Sequence[Sequence[object]]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for place, head in enumerate(columns):
        numbers = all(isinstance(row[place], int | float | None) for row in rows) and rows
        table.add_column(head, justify="right" if numbers else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(escape, row))
    Console().print(table)


def confirm(question: str, *, yes: bool) -> None:
    """Request a confirmation on a terminal, unless `yes` is given."""
    if not yes and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)


@contextlib.contextmanager
def progress(
    label: str, total: float | None, *, hidden: bool = False
) -> Generator[Callable[[float, int], None]]:
    """Show a progress bar on stderr when it is a terminal and the bar is not `hidden`.

    Yields a function of the completed part of `total` (bytes, for example) and the record count.
    """
    if hidden or not sys.stderr.isatty():
        yield lambda _done, _count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]:,} records"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(label, total=total, count=0)
    with bar:
        yield lambda done, count: bar.update(task, completed=done, count=count)
