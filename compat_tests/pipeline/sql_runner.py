"""A runner with SQL that takes scripts as lines of JSON, and answers each with a line of JSON.

The test that kills it needs no listener of SQL, only a process with a driver JVM.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import trio

from barnabas.cli.pipelines_options import session_settings
from barnabas.http import HttpOptions, ListenAddress
from barnabas.pipeline.jobs.runner_settings import RunnerSettings
from barnabas.pipeline.runner.runner_process import RunnerListen, run_runner
from barnabas.pipeline.spark.engine import Engine
from barnabas.pipeline.sql.hosting.hosted_sql import HostedSql
from barnabas.pipeline.sql.shell.answer_values import CommandDone, Message, QueryDetails, Rows
from barnabas.pipeline.sql.sql_failures import SqlError


def answer(sql: HostedSql, script: str) -> list[Any]:
    """Return the texts of a script's answers, or rows; the last is an error where it fails."""
    found: list[Any] = []
    try:
        for each in sql.session().execute(script):
            if isinstance(each, Rows):
                found += [list(row) for row in each]
            elif isinstance(each, Message):
                found.append(each.text)
            elif isinstance(each, CommandDone):
                found.append(each.message)
            elif isinstance(each, QueryDetails):
                found.append(each.plan)
    except SqlError as error:
        found.append(f"error: {error}")
    return found


async def main(properties: dict[str, str]) -> None:
    settings = RunnerSettings.from_properties(properties)

    async def serve(sql: HostedSql, *_: object) -> None:
        def loop() -> None:
            for line in sys.stdin:
                print(json.dumps({"answers": answer(sql, json.loads(line))}), flush=True)

        await trio.to_thread.run_sync(loop, abandon_on_cancel=True)

    with tempfile.TemporaryDirectory(prefix="sql-runner-") as directory:
        engine = Engine(session_settings(settings, Path(directory)), settings.view_directory)
        listen = RunnerListen(ListenAddress("127.0.0.1", 0), HttpOptions(), serve_sql=serve)
        await run_runner(
            settings, listen, engine, lambda url: print(json.dumps({"url": url}), flush=True)
        )


if __name__ == "__main__":
    trio.run(main, json.loads(Path(sys.argv[1]).read_text()))
