"""Every command that the documents show is one that the command line understands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from barnabas.cli.main import cli

ROOT = Path(__file__).parents[2]


def shown(page: str) -> Iterator[str]:
    """Each `barnabas ...` of the page's console blocks, pipes and continuations taken apart."""
    for block in re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(), re.DOTALL):
        joined = re.sub(r"(\\|\|)\n\s+", lambda m: " " if m[1] == "\\" else "| ", block)
        for line in joined.splitlines():
            if line.startswith("$ "):
                tokens = shlex.split(line[2:], comments=True)
                yield from pipeline(tokens)


def pipeline(tokens: list[str]) -> Iterator[str]:
    stage: list[str] = []
    for token in [*tokens, "|"]:
        if token != "|":
            stage.append(token)
            continue
        if stage and stage[0] == "barnabas":
            yield shlex.join(stage[1 : stage.index(">") if ">" in stage else None])
        stage = []


@pytest.mark.parametrize(
    "command",
    [*dict.fromkeys([*shown("docs/cli.md"), *shown("docs/cluster.md"), *shown("README.md")])],
)
def test_command_in_the_documentation_is_valid(command: str) -> None:
    context = click.Context(cli, info_name="barnabas")
    arguments, current = shlex.split(command), cli
    while isinstance(current, click.Group) and (arguments or not current.invoke_without_command):
        name, found, arguments = current.resolve_command(context, arguments)
        assert found is not None
        context = found.make_context(name, list(arguments), parent=context)
        arguments, current = [*context._protected_args, *context.args], found


def test_documentation_shows_every_command() -> None:
    names = {command.split()[0] for command in [*shown("docs/cli.md")]}
    assert names | {"completion"} == set(cli.list_commands(click.Context(cli)))
