"""`barnabas completion`: the script with which a shell completes commands."""

from __future__ import annotations

import click

from barnabas.cli.main import cli


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script for a shell. Use it with: eval "$(barnabas completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"Shell {shell} is not supported.")
    script = kind(cli, {}, "barnabas", "_BARNABAS_COMPLETE")
    click.echo(script.source_template % script.source_vars())
