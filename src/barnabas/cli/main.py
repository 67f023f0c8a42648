"""The entry point: commands by name, errors as one line, exit codes.

Exit codes: 0 success, 1 refused or failed, 2 wrong usage, 3 no server answers, 130 interrupted,
141 the reader of the output has closed the pipe.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from barnabas import __version__
from barnabas.cli.command_errors import CliError, complain

# Command names to "module:attribute"; a module is imported when its command is called.
COMMANDS = {
    "serve": "barnabas.cli.serve_command:serve",
    "format": "barnabas.cli.format_command:format_",
    "certs": "barnabas.cli.certs_command:certs",
    "registry": "barnabas.cli.registry_command:registry",
    "pipelines": "barnabas.cli.pipelines_command:pipelines",
    "job": "barnabas.cli.job_command:job",
    "mirror": "barnabas.cli.mirror_command:mirror",
    "sql": "barnabas.cli.sql_command:sql",
    "schema": "barnabas.cli.schema_command:schema",
    "topic": "barnabas.cli.topic_command:topic",
    "produce": "barnabas.cli.produce_command:produce",
    "consume": "barnabas.cli.consume_command:consume",
    "group": "barnabas.cli.group_command:group",
    "cluster": "barnabas.cli.cluster_command:cluster",
    "config": "barnabas.cli.config_command:config",
    "acl": "barnabas.cli.acl_command:acl",
    "quota": "barnabas.cli.quota_command:quota",
    "token": "barnabas.cli.token_command:token",
    "user": "barnabas.cli.user_command:user",
    "inspect": "barnabas.cli.inspect_command:inspect",
    "log": "barnabas.cli.log_command:log",
    "completion": "barnabas.cli.completion_command:completion",
}

INTERRUPTED = 130
BROKEN_PIPE = 141


class _ReaderGoneError(Exception):
    """Standard output is a pipe whose reader has closed it."""


class _InterruptedError(Exception):
    """The command was interrupted (Ctrl-C)."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; convert the interruptions that click would handle itself."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            raise _ReaderGoneError from None
        except KeyboardInterrupt:
            raise _InterruptedError from None
        return result

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; import its module."""
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, attribute = target.partition(":")
        return getattr(import_module(module), attribute)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="barnabas")
def cli() -> None:
    """Serve Kafka, and work with any Kafka server."""


def main() -> NoReturn:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; print an error to stderr; return the exit code."""
    try:
        result = cli.main(arguments, prog_name="barnabas", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt, _InterruptedError):
        return INTERRUPTED
    except _ReaderGoneError:
        # Python flushes stdout at exit: discard that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except CliError as error:
        complain(error.message)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        context = error.ctx
        line = error.format_message()
        hint = f" See {context.command_path} --help." if context else ""
        complain(f"{line}{hint}")
        return error.exit_code
    except click.ClickException as error:
        complain(error.format_message())
        return error.exit_code
    except OSError as error:
        complain(f"{error.filename or 'input or output'}: {error.strerror or error}")
        return 1
    return result if isinstance(result, int) else 0
