"""The commands of a topic that are still in force: without what was dropped and terminated."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.pipeline.sql.imports.ksqldb_commands import KsqlCommand

_OF_SOURCE: Final = re.compile(r"C[ST]AS_(.+)_\d+")
_ALL: Final = "ALL"


@dataclass(frozen=True)
class LiveCommand:
    """A command, and whether the query that it started has been terminated."""

    command: KsqlCommand
    is_terminated: bool = False

    def started(self, query: str) -> bool:
        """True for the command that started the query of an id, also of one without a plan."""
        command = self.command
        if command.query is not None or command.is_insert:
            return command.query == query
        of_source = _OF_SOURCE.fullmatch(query)
        is_create = command.action == "create" and command.kind in ("stream", "table")
        return is_create and of_source is not None and of_source[1] == command.name


def live(commands: Iterable[KsqlCommand]) -> list[LiveCommand]:
    """Return the commands that are in force after all of them, in an order that runs.

    CREATE OR REPLACE has the place of the CREATE that it replaces, because others depend on it.
    """
    found: list[LiveCommand] = []
    for each in commands:
        found = list(_after(found, each))
    return found


def _after(found: list[LiveCommand], command: KsqlCommand) -> Iterator[LiveCommand]:
    """Yield the commands that are in force after one more."""
    if command.kind == "cluster" and command.action == "terminate":
        return
    if command.kind == "terminate":
        yield from _terminated(found, command.name)
        return
    if command.action == "drop":
        yield from (each for each in found if not _is_of(each, command))
        return
    is_known = any(_is_create(each, command) for each in found)
    is_create = command.action == "create" and not command.is_insert
    if is_create and is_known:
        if not command.replaces:  # IF NOT EXISTS
            yield from found
            return
        for each in found:
            if _is_create(each, command):
                yield LiveCommand(command)
            elif not (_is_of(each, command) and each.command.action == "alter"):
                yield each
        return
    yield from found
    yield LiveCommand(command)


def _terminated(found: list[LiveCommand], query: str) -> Iterator[LiveCommand]:
    for each in found:
        if query.upper() != _ALL and not each.started(query):
            yield each
        elif not each.command.is_insert:
            has_query = each.command.query is not None or query.upper() != _ALL
            yield replace(each, is_terminated=each.is_terminated or has_query)


def _is_of(each: LiveCommand, command: KsqlCommand) -> bool:
    """True for commands of the same entity: its CREATE, its ALTER, and INSERTs into it."""
    return (each.command.kind, each.command.name) == (command.kind, command.name)


def _is_create(each: LiveCommand, command: KsqlCommand) -> bool:
    is_create = each.command.action == "create" and not each.command.is_insert
    return is_create and _is_of(each, command)
